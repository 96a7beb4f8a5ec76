package web

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// served is the address of a site, which ends with the test.
func served(t *testing.T, s *Site) string {
	t.Helper()
	s.host, s.patience = "127.0.0.1", -1
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL
}

// maxTabs is how often the Tab key is pressed to reach a part of a page.
const maxTabs = 150

// reach moves the focus to an element with the Tab key alone.
func reach(t *testing.T, tab *testtool.Tab, selector string) {
	t.Helper()
	for range maxTabs {
		tab.Key("Tab")
		var there bool
		tab.Eval("document.activeElement.matches("+strconv.Quote(selector)+")", &there)
		if there {
			return
		}
	}
	t.Fatalf("%d times the Tab key does not reach %s", maxTabs, selector)
}

// TestPagesInBrowser: each page is whole on every screen, with and without scripts, and what it is for
// is reached by pointer and with the keyboard alone.
func TestPagesInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	old := sourceOf(t, "mix", "samples.bfr")
	_, path := recordingOf(t, "mix", "samples.bfr")
	v := viewOf(t, inferred(t, withMore(t, viewOf(t, old), "mix", "samples.bfr", "lookup", 1), path))
	v.Against(old)
	mix := served(t, NewSite(v, "", nil))
	stalls := served(t, NewSite(viewOf(t, sourceOf(t, "stalls", "chase.bfr")), "", nil))
	fleet := served(t, fleetSite(t, "h1"))
	const procedure = "location.pathname.startsWith('/proc/')"
	for _, tt := range []struct {
		name, url   string
		click, then string
	}{
		{"build", mix + "/build", `main a[href^="/proc/"]`, procedure},
		{"causes", stalls + "/causes", `#causes a[href*="cause="]`, "location.search.startsWith('?cause=') && document.querySelector('#stalls:target')"},
		{"cause", stalls + "/causes?cause=dcache-miss", `#stalls a[href^="/proc/"]`, procedure + " && document.getElementById(location.hash.slice(1))"},
		{"layout", mix + "/layout", ".pages summary", "document.querySelector('.pages details[open] tbody tr')"},
		{"confidence", mix + "/confidence", `nav[aria-label=Pages] a[href="/procedures"]`, "location.pathname === '/procedures'"},
		{"compare", mix + "/compare", "#procedures tbody a", "document.querySelectorAll('.blockside pre').length >= 2"},
		{"compare-blocks", mix + "/compare?proc=" + procID(t, v, "lookup"), ".blockside a", procedure},
		{"fleet", fleet + "/fleet", `#labels a[href*="h1"]`, "document.querySelector('#labels b[aria-current]')?.innerText === 'h1'"},
		{"fleet-chosen", fleet + "/fleet?label=host%3Dh1", `#labels a[href="/fleet"]`, "location.search === '' && !document.querySelector('#labels b[aria-current]')"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, screen := range screens {
				t.Run(name, func(t *testing.T) {
					tab := b.Open(t, tt.url, screen)
					if !screen.NoScripts {
						tab.Wait("document.documentElement.dataset.script === 'on'")
					}
					tab.Shot(tt.name + "-" + name)
					checkLook(t, tab)
					if screen.Dark {
						return // paths are the same
					}
					tab.Click(tt.click)
					tab.Wait(tt.then)
					tab.Go("about:blank")
					tab.Go(tt.url)
					reach(t, tab, tt.click)
					tab.Key("Enter")
					tab.Wait(tt.then)
					if all := tab.Complaints(); len(all) > 0 {
						t.Errorf("the browser complains: %s", strings.Join(all, "; "))
					}
				})
			}
		})
	}
}
