package fetch

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Selection is what a server of profiles is asked for, beside what its address says.
type Selection struct {
	Since, Until time.Time // zero: the hour before now, and now
	Labels       map[string]string
}

const (
	// queryKey and tenantKey are what an address of a server of profiles may ask.
	queryKey, tenantKey = "query", "tenant"

	// usualWindow is how far back a server is asked if nobody says.
	usualWindow = time.Hour

	// maxAnswer bounds an answer, which is held in memory, in bytes. Parca's own limit is 64 MiB (pkg/debuginfo).
	maxAnswer = 256 << 20

	// TokenVar is the environment variable with what servers of profiles want to see.
	TokenVar = "BACKFEED_TOKEN"
)

// usualQuery is what a kind of server is asked unless the address has a query.
var usualQuery = map[string]string{
	"parca":     "parca_agent:samples:count:cpu:nanoseconds:delta",
	"pyroscope": "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
}

// Selects reports whether a path is the address of a server of profiles, from which --since, --until and --label choose.
func Selects(path string) bool {
	_, _, ok := serverOf(path)
	return ok
}

// serverOf returns the kind of server that an address names, and the scheme that it is asked by: parca://, parca+https://.
func serverOf(address string) (kind, scheme string, ok bool) {
	before, _, found := strings.Cut(address, "://")
	kind, scheme, _ = strings.Cut(before, "+")
	scheme = cmp.Or(scheme, "http")
	return kind, scheme, found && usualQuery[kind] != "" && (scheme == "http" || scheme == "https")
}

// selected returns the profile that a server of profiles makes of what is selected, in pprof's format.
func (f Fetcher) selected(ctx context.Context, address string, maxBytes int64) ([]byte, error) {
	kind, scheme, _ := serverOf(address)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%s: want an address such as parca://localhost:7070", Name(address))
	}
	asked := u.Query()
	for key := range asked {
		if key != queryKey && key != tenantKey {
			return nil, fmt.Errorf("%s: want nothing but %s= and %s= after the question mark; --since, --until and --label choose too", Name(address), queryKey, tenantKey)
		}
	}
	query, err := labelled(cmp.Or(asked.Get(queryKey), usualQuery[kind]), f.Select.Labels)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name(address), err)
	}
	to := f.Select.Until
	if to.IsZero() {
		to = time.Now()
	}
	from := f.Select.Since
	if from.IsZero() {
		from = to.Add(-usualWindow)
	}
	if !from.Before(to) {
		return nil, fmt.Errorf("%s: from %s to %s is no time", Name(address), from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	c := &call{header: http.Header{}, as: address}
	if tenant := asked.Get(tenantKey); tenant != "" {
		c.header.Set("X-Scope-OrgID", tenant)
	}
	base := &url.URL{Scheme: scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/"), User: u.User}
	token := os.Getenv(TokenVar)
	if u.User != nil {
		if _, both := u.User.Password(); !both { // one word is a token
			token, base.User = u.User.Username(), nil
		} else {
			token = ""
		}
	}
	if token != "" {
		c.header.Set("Authorization", "Bearer "+token)
	}
	if kind == "parca" {
		return f.askParca(ctx, base, c, query, from, to, maxBytes)
	}
	return f.askPyroscope(ctx, base, c, query, from, to, maxBytes)
}

// labelled adds labels to a query: type{name="value"}.
func labelled(query string, labels map[string]string) (string, error) {
	name, selector, braced := strings.Cut(query, "{")
	inner := ""
	if braced {
		var ok bool
		if inner, ok = strings.CutSuffix(strings.TrimSpace(selector), "}"); !ok {
			return "", fmt.Errorf("%s %q: a } is missing", queryKey, query)
		}
	}
	var all []string
	if inner = strings.Trim(inner, " ,"); inner != "" {
		all = append(all, inner)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		values := []string{labels[key]}
		if strings.HasSuffix(key, "!") { // none of several, as stores take it
			values = strings.Split(labels[key], "|")
		}
		for _, v := range values {
			all = append(all, key+"="+strconv.Quote(v))
		}
	}
	return name + "{" + strings.Join(all, ",") + "}", nil
}

// Fields of messages of protocol buffers.

func varintField(b []byte, number int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(number)<<3), v)
}

func bytesField[T []byte | string](b []byte, number int, v T) []byte {
	b = binary.AppendUvarint(b, uint64(number)<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// timestamp is a google.protobuf.Timestamp.
func timestamp(t time.Time) []byte {
	return varintField(varintField(nil, 1, uint64(t.Unix())), 2, uint64(t.Nanosecond()))
}

// askParca asks for parca.query.v1alpha1.QueryService/Query: samples merged over the time, as a pprof profile. By gRPC-Web,
// not by the HTTP that Parca serves beside, whose answers end at 4 MiB.
func (f Fetcher) askParca(ctx context.Context, base *url.URL, c *call, query string, from, to time.Time, maxBytes int64) ([]byte, error) {
	const (
		modeMerge, reportPprof           = 2, 1
		mode, merge, reportType          = 1, 3, 5 // of QueryRequest
		mergeQuery, mergeStart, mergeEnd = 1, 2, 3 // of MergeProfile
		answerPprof                      = 6       // of QueryResponse
		path                             = "/parca.query.v1alpha1.QueryService/Query"
	)
	m := bytesField(bytesField(bytesField(nil, mergeQuery, query), mergeStart, timestamp(from)), mergeEnd, timestamp(to))
	c.body = varintField(bytesField(varintField(nil, mode, modeMerge), merge, m), reportType, reportPprof)
	base.Path += path
	b, err := f.grpcWeb(ctx, base.String(), c, maxBytes)
	if err != nil {
		return nil, err
	}
	profile, err := bytesOf(b, answerPprof)
	if err == nil && len(profile) == 0 {
		err = errors.New("no profile in the answer")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name(c.as), err)
	}
	return profile, nil
}

// askPyroscope asks for querier.v1.QuerierService/SelectMergeProfile, whose answer has the fields of a pprof profile.
func (f Fetcher) askPyroscope(ctx context.Context, base *url.URL, c *call, query string, from, to time.Time, maxBytes int64) ([]byte, error) {
	const (
		profileType, selector, start, end = 1, 2, 3, 4 // of SelectMergeProfileRequest
		path                              = "/querier.v1.QuerierService/SelectMergeProfile"
	)
	name, labels, _ := strings.Cut(query, "{")
	c.body = bytesField(bytesField(nil, profileType, name), selector, "{"+labels)
	c.body = varintField(varintField(c.body, start, uint64(from.UnixMilli())), end, uint64(to.UnixMilli()))
	base.Path += path
	b, err := f.connect(ctx, base.String(), c, maxBytes)
	if err == nil && len(b) == 0 {
		err = fmt.Errorf("%s: no profile in the answer", Name(c.as))
	}
	return b, err
}

// bytesOf returns the field of a message that has bytes and that number; nil if it has none.
func bytesOf(b []byte, number int) (found []byte, err error) {
	bad := func(off int) ([]byte, error) {
		return nil, fmt.Errorf("offset %#x of the answer: malformed field", off)
	}
	for rest := b; len(rest) > 0; {
		off := len(b) - len(rest)
		key, n := binary.Uvarint(rest)
		if n <= 0 {
			return bad(off)
		}
		rest = rest[n:]
		switch key & 7 {
		case 0:
			if _, n = binary.Uvarint(rest); n <= 0 {
				return bad(off)
			}
			rest = rest[n:]
		case 1, 5:
			size := 8
			if key&7 == 5 {
				size = 4
			}
			if len(rest) < size {
				return bad(off)
			}
			rest = rest[size:]
		case 2:
			size, n := binary.Uvarint(rest)
			if n <= 0 || size > uint64(len(rest)-n) {
				return bad(off)
			}
			if key>>3 == uint64(number) {
				found = rest[n : n+int(size)]
			}
			rest = rest[n+int(size):]
		default:
			return bad(off)
		}
	}
	return found, nil
}
