package fetch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The requests of TestSelect, in hexadecimal. The servers' own libraries write the same fields, by reporttype before merge and
// without the zero: parca's gen/proto/go (of July 2026) and github.com/grafana/pyroscope/api v1.6.0 of
//
//	{"mode":"MODE_MERGE","merge":{"query":"a:b{x=\"1\",y=\"z\"}","start":"2026-11-25T10:00:00.000000007Z",
//	 "end":"2026-11-25T11:00:00Z"},"reportType":"REPORT_TYPE_PPROF"}
//	{"profileTypeID":"a:b","labelSelector":"{x=\"1\",y=\"z\"}","start":"1795600800000","end":"1795604400000"}
const (
	parcaRequest     = "0802" + "1a26" + "0a10613a627b783d2231222c793d227a227d" + "120808a0e39ad8061007" + "1a0808b0ff9ad8061000" + "2801"
	pyroscopeRequest = "0a03613a62" + "120d7b783d2231222c793d227a227d" + "1880b29791a134" + "20808ff392a134"
)

// frame puts a message into a frame of gRPC-Web.
func frame(flags byte, body string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(body)))) + body
}

// profileAnswer is a QueryResponse with a profile of 300 samples, 3 of them filtered out, as Parca's library writes it.
const profileAnswer = "\x48\xac\x02\x50\x03\x32\x07profile"

func TestSelect(t *testing.T) {
	from := time.Date(2026, 11, 25, 10, 0, 0, 7, time.UTC)
	selection := Selection{Since: from, Until: from.Truncate(time.Hour).Add(time.Hour), Labels: map[string]string{"y": "z"}}
	web := http.Header{"Content-Type": {"application/grpc-web+proto"}}
	connect := http.Header{"Content-Type": {"application/proto"}}
	said := func(status int, header http.Header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for key, values := range header {
				w.Header()[key] = values
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	ok := frame(0x80, "grpc-status: 0\r\n")
	for _, tt := range []struct {
		name, kind string
		answer     http.HandlerFunc
		want       string // the profile, or what the error says
		bad        bool
	}{
		{"parca", "parca", said(200, web, frame(0, profileAnswer)+ok), "profile", false},
		{"parca refuses", "parca", said(200, web, frame(0x80, "grpc-status: 3\r\ngrpc-message: no such%20query t0ps3cret\r\n")), "INVALID_ARGUMENT: no such query ...", true},
		{"parca is not there", "parca", said(200, web, frame(0x80, "grpc-status: 14\r\ngrpc-message: loading\r\n")), "UNAVAILABLE: loading", true},
		{"parca refuses at once", "parca", said(200, http.Header{"Content-Type": web["Content-Type"], "Grpc-Status": {"16"}, "Grpc-Message": {"who are you"}}, ""), "UNAUTHENTICATED: who are you", true},
		{"parca, cut between frames", "parca", said(200, web, frame(0, profileAnswer)), "has no status", true},
		{"parca, cut in a frame", "parca", said(200, web, frame(0, profileAnswer)[:9]), "offset 0x0: no frame", true},
		{"parca, a length beyond the end", "parca", said(200, web, "\x00\xff\xff\xff\xff"), "offset 0x0: no frame", true},
		{"parca, zipped", "parca", said(200, web, frame(1, profileAnswer)+ok), "flags 0x1", true},
		{"parca, no message", "parca", said(200, web, ok), "0 messages", true},
		{"parca, another report", "parca", said(200, web, frame(0, "\x48\x01")+ok), "no profile in the answer", true},
		{"parca, malformed", "parca", said(200, web, frame(0, "\x32\x7f")+ok), "offset 0x0 of the answer", true},
		{"parca, a page", "parca", said(200, http.Header{"Content-Type": {"text/html"}}, "<html>"), "is another server there?", true},
		{"pyroscope", "pyroscope", said(200, connect, "profile"), "profile", false},
		{"pyroscope refuses", "pyroscope", said(400, http.Header{"Content-Type": {"application/json"}}, `{"code":"invalid_argument","message":"bad selector"}`), "invalid_argument: bad selector", true},
		{"pyroscope has nothing", "pyroscope", said(200, connect, ""), "no profile in the answer", true},
		{"pyroscope, a page", "pyroscope", said(200, http.Header{"Content-Type": {"text/html"}}, "<html>"), "is another server there?", true},
		{"moved", "pyroscope", said(302, http.Header{"Location": {"/elsewhere"}}, ""), "302", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked++; asked == 1 {
					http.Error(w, "starting", http.StatusServiceUnavailable) // all is asked for again
					return
				}
				if asked == 2 && tt.kind == "parca" {
					said(200, web, frame(0x80, "grpc-status: 14\r\ngrpc-message: loading t0ps3cret\r\n"))(w, r) // so is this
					return
				}
				body, err := io.ReadAll(r.Body)
				if err != nil || r.Method != http.MethodPost {
					t.Errorf("%s: %v", r.Method, err)
				}
				want, path := parcaRequest, "/under/parca.query.v1alpha1.QueryService/Query"
				if tt.kind == "pyroscope" {
					want, path = pyroscopeRequest, "/under/querier.v1.QuerierService/SelectMergeProfile"
				} else if len(body) < frameHead || int(binary.BigEndian.Uint32(body[1:])) != len(body)-frameHead || body[0] != 0 {
					t.Errorf("the request is no frame: %x", body)
				} else {
					body = body[frameHead:]
				}
				if got := hex.EncodeToString(body); got != want {
					t.Errorf("asked\n%s, want\n%s", got, want)
				}
				if r.URL.Path != path || r.Header.Get("Authorization") != "Bearer t0ps3cret" || r.Header.Get("X-Scope-Orgid") != "team" {
					t.Errorf("%s, %q", r.URL, r.Header)
				}
				tt.answer(w, r)
			}))
			defer server.Close()
			address := strings.Replace(server.URL, "http://", tt.kind+"://t0ps3cret@", 1) + `/under/?tenant=team&query=a:b{x="1"}`
			file, err := os.Create(filepath.Join(t.TempDir(), "got"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var retried string
			err = Fetcher{Pause: time.Millisecond, Select: selection, Retry: func(why error, _ time.Duration) { retried = why.Error() }}.To(t.Context(), address, file, 1<<20)
			got, _ := os.ReadFile(file.Name())
			if tt.bad {
				if err == nil {
					t.Fatalf("got %q, no error", got)
				}
				got = []byte(err.Error())
			} else if err != nil {
				t.Fatal(err)
			}
			if !tt.bad && string(got) != tt.want || !bytes.Contains(got, []byte(tt.want)) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			for _, text := range []string{string(got), retried} {
				if strings.Contains(text, "t0ps3cret") {
					t.Errorf("shows the token: %s", text)
				}
			}
			why := "503"
			if tt.kind == "parca" {
				why = "UNAVAILABLE: loading"
			}
			if !strings.Contains(retried, why) || tt.bad && !strings.Contains(string(got), tt.kind+"://127.0.0.1") {
				t.Errorf("tried again for %q; %s", retried, got)
			}
		})
	}
}

// TestSelection: what an address asks for, and what no server is asked.
func TestSelection(t *testing.T) {
	for _, tt := range []struct{ query, want string }{
		{"a:b", `a:b{k="v\"w"}`},
		{"a:b{}", `a:b{k="v\"w"}`},
		{`a:b{c=~"d|e", }`, `a:b{c=~"d|e",k="v\"w"}`},
		{`a:b{c="d"`, ""},
	} {
		got, err := labelled(tt.query, map[string]string{"k": `v"w`})
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: %s, %v; want %s", tt.query, got, err, tt.want)
		}
	}
	for _, address := range []string{"parca://", "parca://localhost:1/?seconds=3", "parca://localhost:1/?query=a{"} {
		if err := (Fetcher{}).To(t.Context(), address, nil, 1); err == nil {
			t.Errorf("%s is asked", address)
		}
	}
	later := Selection{Since: time.Now(), Until: time.Now().Add(-time.Hour)}
	if err := (Fetcher{Select: later}).To(t.Context(), "parca://localhost:1", nil, 1); err == nil || !strings.Contains(err.Error(), "no time") {
		t.Errorf("asked for a time that ends before it begins: %v", err)
	}
	for address, want := range map[string]bool{"parca://h": true, "parca+https://h": true, "pyroscope+http://h": true, "parca+ftp://h": false, "http://h": false, "parca": false} {
		if Selects(address) != want {
			t.Errorf("%s: a server of profiles is %v", address, !want)
		}
	}
	if got := Name(`parca://t0ken@h:1/p?query=a{b="c"}&tenant=x`); got != `parca://h:1/p?query=a{b="c"}&...` {
		t.Errorf("named %s", got)
	}
}

// FuzzAnswer: whatever a server answers is an error or bytes of it.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(profileAnswer))
	f.Fuzz(func(t *testing.T, b []byte) {
		if found, err := bytesOf(b, 6); err == nil && !bytes.Contains(b, found) {
			t.Errorf("%q is not in it", found)
		}
	})
}
