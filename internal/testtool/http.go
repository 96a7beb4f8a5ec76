package testtool

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Ask sends a request for path, as a browser at address host would.
func Ask(s http.Handler, method, host, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, "http://"+host+path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

// Body returns what an answer holds.
func Body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// DialAll opens connections and writes the same to each.
func DialAll(t *testing.T, addr string, n int, text string) []net.Conn {
	t.Helper()
	var all []net.Conn
	for range n {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, text)
		all = append(all, c)
	}
	return all
}

// metricLine is what Prometheus takes for a sample, less timestamps.
var metricLine = regexp.MustCompile(`^([a-z_]+)(\{[a-z]+="[^"\\]*"(,[a-z]+="[^"\\]*")*\})? (\S+)$`)

// Metrics parses a page of metrics, and complains where Prometheus would.
func Metrics(t *testing.T, page string) map[string]float64 {
	t.Helper()
	values, types := map[string]float64{}, map[string]string{}
	for _, line := range strings.Split(strings.TrimSuffix(page, "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			if types[name] != "" || kind != "counter" && kind != "gauge" || (kind == "counter") != strings.HasSuffix(name, "_total") {
				t.Errorf("%q", line)
			}
			types[name] = kind
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		m := metricLine.FindStringSubmatch(line)
		if m == nil || types[m[1]] == "" {
			t.Errorf("%q is no metric", line)
			continue
		}
		v, err := strconv.ParseFloat(m[4], 64)
		if _, twice := values[m[1]+m[2]]; err != nil || twice {
			t.Errorf("%q: twice, or %v", line, err)
		}
		values[m[1]+m[2]] = v
	}
	return values
}
