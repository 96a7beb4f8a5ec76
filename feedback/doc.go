package feedback
