package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"backfeed/cmd/internal/web/script"
)

// A Page is one HTML file that needs no other: its style, its script and the documents that
// the script shows are inside, it loads nothing, and its policy forbids that it could. A page
// of a server has its documents there instead. It is whole without scripts, which make it a
// tool to work with; package script has them. It is well-formed XML too.
//
// All pages have one frame: title, lead, a line of links to the sections, sections,
// footer. html/style.css has the colours, by name, for light and dark screens, and
// the look of what any page may hold; a page adds only what is its own.
type Page struct {
	Title    string
	Lead     string // what the page shows, and what it is made from
	Links    []Link // to other pages
	More     []Link // to pages like this one
	Sections []Section
	Data     []Datum // documents that are inside
	Served   bool    // scripts may ask the server of the page for documents
	Broad    bool    // it has parts beside each other, and may be as wide as the screen
	Near     int     // sections that the first screen may show; of others what is in sight is laid out alone. 0 is all

	style string // behind style.css
}

// A Datum is a document inside a page, for scripts.
type Datum struct {
	Name string // letters, digits, dots and hyphens
	Of   any    // that is written as JSON
}

// A Link leads to another page, or to this one.
type Link struct {
	Href, Text string
	Here       bool // it is this page
}

// A Section is a part of a Page with a heading.
type Section struct {
	ID    string // links lead to #ID
	Title string
	Body  template.HTML
	Quiet bool // not among the links at the top: there are many like it, and something else leads to them
}

//go:embed html
var htmlFiles embed.FS

// pages are the templates in html, by file name. Most commands do without: they are read when the first is asked for, in 2 ms.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"clean": Clean, "prose": Prose, "dict": dict, "breakable": breakable, "badge": Badge, "initial": initial,
	}).ParseFS(htmlFiles, "html/*.tmpl"))
})

// breakable is a name as markup that lines may end in behind its scopes and packages, and between the parts of what is
// joined by dots; numbers stay whole.
func breakable(name string) template.HTML {
	text := template.HTMLEscapeString(Clean(name))
	var b strings.Builder
	for i := range len(text) {
		b.WriteByte(text[i])
		next := byte(' ')
		if i+1 < len(text) {
			next = text[i+1]
		}
		switch c := text[i]; {
		case c == '/', c == '_', c == ':' && i > 0 && text[i-1] == ':', c == '.' && (next < '0' || next > '9'):
			b.WriteString("<wbr/>")
		}
	}
	return template.HTML(b.String())
}

// Prose is a text for people as markup: what stands between backquotes, as commands do, is code. Backquotes
// within a word, as names may have them, are text.
func Prose(text string) template.HTML {
	text = template.HTMLEscapeString(Clean(text)) // where no backquote comes or goes
	var b strings.Builder
	for {
		start := strings.IndexByte(text, '`')
		if start < 0 {
			b.WriteString(text)
			return template.HTML(b.String())
		}
		end := start + 1 + strings.IndexByte(text[start+1:], '`')
		switch {
		case end <= start+1, start > 0 && !strings.ContainsRune(" (", rune(text[start-1])), end+1 < len(text) && !strings.ContainsRune(" .,;:)", rune(text[end+1])):
			b.WriteString(text[:start+1])
			text = text[start+1:]
		default:
			b.WriteString(text[:start] + "<code>" + text[start+1:end] + "</code>")
			text = text[end+1:]
		}
	}
}

// asset returns a file of html, which exists.
func asset(name string) string {
	b, err := htmlFiles.ReadFile("html/" + name)
	if err != nil {
		panic(err) // it was embedded when this was compiled
	}
	return string(b)
}

// NewPage makes a page for sections that explain where time went.
func NewPage(title, lead string) *Page {
	return &Page{Title: title, Lead: lead, style: asset("explain.css")}
}

func (p *Page) styles() string { return "\n" + asset("style.css") + p.style }

// Policy is the content security policy of the page. The page says so itself; a server
// shall say it too.
func (p *Page) Policy() string {
	policy := "default-src 'none'; style-src " + hashed(p.styles()) + "; script-src " + hashed(bundle)
	if p.Served {
		policy += "; connect-src 'self'"
	}
	return policy
}

// Far reports whether section i is far below what is seen first.
func (p *Page) Far(i int) bool { return p.Near > 0 && i >= p.Near }

// bundle is the script as XML has it as text, too.
var bundle = "//<![CDATA[\n" + script.Bundle + "//]]>"

// Write writes the page. Equal pages are equal bytes.
func (p *Page) Write(w io.Writer) error {
	type datum struct {
		ID   string
		JSON template.JS
	}
	var data []datum
	for _, d := range p.Data {
		b, err := json.Marshal(d.Of) // which escapes <, > and &, and line ends that are none in JavaScript
		if err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		data = append(data, datum{"data-" + d.Name, template.JS(b)})
	}
	return pages().ExecuteTemplate(w, "page.tmpl", map[string]any{
		"Page": p, "Policy": p.Policy(), "Style": template.CSS(p.styles()), "Script": template.JS(bundle), "Data": data,
	})
}

// hashed names a style or a script in a content security policy.
func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// markup fills one of the templates in html.
func markup(name string, data any) (template.HTML, error) {
	var b strings.Builder
	err := pages().ExecuteTemplate(&b, name, data)
	return template.HTML(b.String()), err
}

// dict passes a template that is called by another what it needs, as name and value
// in turn.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// Append adds the sections of q, with what they need to look as they do there.
func (p *Page) Append(q *Page) {
	p.Sections = append(p.Sections, q.Sections...)
	p.Data = append(p.Data, q.Data...)
	p.style += q.style
}

// A Fact is a figure with its name.
type Fact struct{ Name, Value string }

// FactsHTML lists figures side by side.
func FactsHTML(facts []Fact) (template.HTML, error) { return markup("facts.tmpl", facts) }
