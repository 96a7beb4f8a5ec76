package report

import (
	"html/template"

	"backfeed/infer"
)

// promises say what a confidence promises, in a few words.
var promises = [...]string{
	infer.None: "no evidence: unseen", infer.Low: "no promise: from the flow around it alone",
	infer.Medium: "within a factor 2 of the truth, with 90 % confidence", infer.High: "within 10 % of the truth, with 90 % confidence",
}

// Promise says what c promises.
func Promise(c infer.Confidence) string { return promises[c] }

// Badge is a confidence as a mark beside a figure. What it promises is its title, behind what it is about, if that is given.
func Badge(c infer.Confidence, about ...string) template.HTML {
	title := promises[c]
	for _, of := range about {
		title = of + ": " + title
	}
	return template.HTML(`<span class="conf ` + c.String() + `" title="` + template.HTMLEscapeString(title) + `">` + c.String() + `</span>`)
}

// initial is the first letter of c.
func initial(c infer.Confidence) string { return c.String()[:1] }
