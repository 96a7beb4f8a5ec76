package report

import "html/template"

// An OfferRow is a file that a build can have, as pages show it.
type OfferRow struct {
	Reader, Does, Worth, Note string
	Badge                     template.HTML // how far the counts in it are to be trusted
	Commands, Says            []string
}

// A LackRow is a file that cannot be made, and why.
type LackRow struct{ Reader, Why string }

// OffersHTML lists files for builds, and those that cannot be made.
func OffersHTML(files []OfferRow, others []LackRow) (template.HTML, error) {
	return markup("offers.tmpl", map[string]any{"Files": files, "Others": others})
}

// CommandsHTML shows commands, to be copied.
func CommandsHTML(commands ...string) (template.HTML, error) {
	return markup("commands.tmpl", commands)
}
