package perfdata
