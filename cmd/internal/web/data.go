package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"backfeed/cmd/internal/report"
	"backfeed/infer"
)

// documents are what scripts of pages ask for, as GET /data/NAME or inside a page of one
// file: those that commands print with --format json, by name of the command.
var documents = map[string]func(v *View, q url.Values) (any, error){
	"flame": func(v *View, q url.Values) (any, error) {
		want, err := v.flameWanted(q)
		if err != nil {
			return nil, err
		}
		return v.flame(want), nil
	},
	"flow": func(v *View, q url.Values) (any, error) {
		p := v.byID[q.Get("proc")]
		if p == nil {
			return nil, errNoProc
		}
		return report.NewFlowDocument(v.explain(p), v.names, ""), nil
	},
	"infer": func(v *View, _ url.Values) (any, error) {
		return written(func(w io.Writer) error { return infer.WriteDocument(w, v.src.Profile, nil) }), nil
	},
	"prof": func(v *View, _ url.Values) (any, error) {
		return report.ItemsOf("backfeed.prof/2", report.ProfRows(v.src.Profile, v.src.Named, nil)), nil
	},
	"report": func(v *View, q url.Values) (any, error) { // findings=0 leaves out what takes long
		if q.Get("findings") == "0" {
			return v.items(-1), nil
		}
		return v.Overview(-1), nil
	},
	"diff":             diffDocument,
	"flame-difference": flameDifferenceDocument,
	"topstalls": func(v *View, _ url.Values) (any, error) {
		return report.NewTopStalls(v.src.Profile, v.x, report.StallFilter{}, maxStalls), nil
	},
}

// maxStalls is how many stalls the document topstalls has.
const maxStalls = 200

// written is a document that writes itself.
type written func(w io.Writer) error

// dataFile answers with a document.
func (s *Site) dataFile(w http.ResponseWriter, r *http.Request) {
	of := documents[r.PathValue("name")]
	if of == nil {
		http.Error(w, "no such document", http.StatusNotFound)
		return
	}
	var b bytes.Buffer
	doc, err := of(s.View, r.URL.Query())
	if write, ok := doc.(written); ok && err == nil {
		err = write(&b)
	} else if err == nil {
		err = json.NewEncoder(&b).Encode(doc)
	}
	if errors.Is(err, errNoProc) {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if err != nil {
		http.Error(w, "the document cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(b.Bytes())
}
