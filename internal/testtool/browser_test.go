package testtool

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

const browserPage = `<!DOCTYPE html><html lang="en"><title>x</title><style>:root { color-scheme: light dark } body { background: white } @media (prefers-color-scheme: dark) { body { background: black } }</style>
<main><h1>Page</h1><label>Name <input id="name"></label> <button>Press <b>me</b></button> <p id="said">nothing</p><p><a href="#said">there</a></p></main>
<script>
document.querySelector("button").onclick = () => { said.textContent = document.getElementById("name").value };
addEventListener("keydown", (e) => { if (e.key === "Escape") console.error("escaped", e.shiftKey) });
</script>`

// TestBrowser: what is typed and clicked arrives, and complaints of the page come back.
func TestBrowser(t *testing.T) {
	b := NewBrowser(t)
	page := "data:text/html," + url.PathEscape(browserPage)
	tab := b.Open(t, page, Screen{Width: 400, Dark: true})
	tab.Click("#name")
	tab.Type("a/B.?ü")
	tab.Key("Backspace")
	tab.ClickText("Press me")
	if got := tab.Text("#said"); got != "a/B.?" {
		t.Errorf("the page has %q", got)
	}
	tab.Key("Shift+Escape")
	tab.Wait("true")
	if got := tab.Complaints(); len(got) != 1 || got[0] != "escaped true " {
		t.Errorf("the page complains of %q", got)
	}
	var colour string
	var width int
	tab.Eval("getComputedStyle(document.body).backgroundColor", &colour)
	tab.Eval("new Promise((done) => done(innerWidth))", &width)
	if colour != "rgb(0, 0, 0)" || width != 400 {
		t.Errorf("on a dark screen of 400: background %s, %d wide", colour, width)
	}
	if got := tab.Axe(); len(got) > 0 {
		t.Errorf("axe-core: %q", got)
	}
	tab.Eval(`document.querySelector("label").replaceWith(document.createElement("input"))`, nil)
	if got := tab.Axe(); !slices.ContainsFunc(got, func(v string) bool { return strings.HasPrefix(v, "label (critical)") }) {
		t.Errorf("axe-core has nothing to say of a field without a name: %q", got)
	}
	tab.Shot("page")

	still := b.Open(t, page, Screen{NoScripts: true})
	still.ClickText("Press me")
	if got := still.Text("#said"); got != "nothing" {
		t.Errorf("without scripts the page has %q", got)
	}
	if got := still.Axe(); len(got) > 0 {
		t.Errorf("axe-core, without scripts: %q", got)
	}
}
