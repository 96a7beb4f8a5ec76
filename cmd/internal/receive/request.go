package receive

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"backfeed/sample/bound"
	"backfeed/sample/otlp"
)

// A refusal is why a request is not taken: a code of gRPC (google.rpc.Code), and that of HTTP that means the same to
// senders (https://opentelemetry.io/docs/specs/otlp/#failures).
type refusal struct {
	grpc, http int
	err        error
}

func (r *refusal) Error() string { return r.err.Error() }

// Codes of gRPC.
const (
	codeOK            = 0
	codeInvalid       = 3
	codeExhausted     = 8 // without information about a retry: none is to be made
	codeUnimplemented = 12
	codeUnavailable   = 14 // try again
)

func invalid(err error) *refusal {
	return &refusal{codeInvalid, http.StatusBadRequest, err}
}

func tooLarge(err error) *refusal {
	return &refusal{codeExhausted, http.StatusRequestEntityTooLarge, err}
}

func later(err error) *refusal {
	return &refusal{codeUnavailable, http.StatusServiceUnavailable, err}
}

// refused is why err refuses a request.
func refused(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return invalid(err)
}

// body reads what a request has sent, of at most so many bytes, and draws its memory from what the receiver has for
// all. What it returns is given back by the second result.
func (r *Receiver) body(in io.Reader, packed string) (b []byte, giveBack func(), err error) {
	var drawn int64
	giveBack = func() { r.held.Add(-drawn) }
	draw := func(n int64) error {
		drawn += n
		if r.held.Add(n) > inFlight*r.opt.MaxMessage {
			return later(errors.New("too many messages at once"))
		}
		return nil
	}
	sent, err := readAll(in, r.opt.MaxMessage, draw)
	if err != nil {
		return nil, giveBack, err
	}
	r.page.read(len(sent))
	switch packed {
	case "", "identity":
		return sent, giveBack, nil
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(sent))
		if err != nil {
			return nil, giveBack, invalid(fmt.Errorf("gzip: %w", err))
		}
		b, err := readAll(z, r.opt.MaxMessage, draw)
		return b, giveBack, err
	}
	return nil, giveBack, &refusal{codeUnimplemented, http.StatusUnsupportedMediaType, fmt.Errorf("compressed with %q, want gzip or nothing", packed[:min(len(packed), 32)])}
}

// readAll reads at most so many bytes, and draws before it allocates.
func readAll(in io.Reader, most int64, draw func(int64) error) ([]byte, error) {
	const first = 4 << 10
	if err := draw(first); err != nil {
		return nil, err
	}
	b := make([]byte, 0, first)
	for {
		if int64(len(b)) > most {
			return nil, tooLarge(fmt.Errorf("a message of more than %s (--max-message)", bound.Bytes(most)))
		}
		if len(b) == cap(b) {
			if err := draw(int64(cap(b))); err != nil {
				return nil, err
			}
			b = append(make([]byte, 0, 2*cap(b)), b...)
		}
		n, err := in.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, invalid(fmt.Errorf("after %d bytes of the message: %w", len(b), err))
		}
	}
}

// take counts the profiles of a message.
func (r *Receiver) take(ctx context.Context, b []byte, inJSON bool) (*otlp.Batch, error) {
	wait := time.NewTimer(slotTime)
	defer wait.Stop()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, later(ctx.Err())
	case <-wait.C:
		return nil, later(errors.New("all processors are busy with other messages"))
	}
	if err := bound.Memory(otlp.MemoryRate * int64(len(b))); err != nil {
		return nil, later(err)
	}
	batch, err := r.decoder.Decode(b, inJSON)
	if err != nil {
		return nil, invalid(err)
	}
	if err := r.gather(batch.Recording); err != nil {
		return nil, later(err)
	}
	r.page.took(batch)
	for _, msg := range batch.Warnings {
		r.log.Debug("of a message", "warning", msg)
	}
	return batch, nil
}

// checkVersion refuses another version of the signal than is read.
func checkVersion(h http.Header) error {
	switch values := h[otlp.VersionHeader]; {
	case len(values) == 0:
		return nil
	case len(values) > 1 || values[0] != otlp.Version:
		return invalid(fmt.Errorf("%s: want %s", strings.ToLower(otlp.VersionHeader), otlp.Version))
	}
	return nil
}

// grpc serves the method Export.
func (r *Receiver) grpc() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !strings.HasPrefix(req.Header.Get("Content-Type"), "application/grpc") || req.ProtoMajor < 2 {
			http.Error(w, "this port is for gRPC", http.StatusUnsupportedMediaType)
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Accept-Encoding", "gzip")
		answer, err := r.export(req)
		if err != nil {
			why := refused(err)
			r.page.answered("grpc", fmt.Sprint(why.grpc))
			r.refuse("grpc", req, why.grpc, why)
			w.Header().Set("Grpc-Status", fmt.Sprint(why.grpc))
			w.Header().Set("Grpc-Message", percentEncoded(why.Error()))
			return
		}
		r.page.answered("grpc", fmt.Sprint(codeOK))
		w.Write(append([]byte{0, byte(len(answer) >> 24), byte(len(answer) >> 16), byte(len(answer) >> 8), byte(len(answer))}, answer...))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", fmt.Sprint(codeOK))
	})
}

const exportPath = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

// export takes the one message of a call, and returns the one that answers it.
func (r *Receiver) export(req *http.Request) ([]byte, error) {
	if req.URL.Path != exportPath {
		return nil, &refusal{codeUnimplemented, http.StatusNotFound, fmt.Errorf("no such method, but %s", exportPath)}
	}
	if err := checkVersion(req.Header); err != nil {
		return nil, err
	}
	switch req.Header.Get("Content-Type") {
	case "application/grpc", "application/grpc+proto":
	default:
		return nil, &refusal{codeUnimplemented, http.StatusUnsupportedMediaType, errors.New("want protobuf")}
	}
	var head [5]byte
	if _, err := io.ReadFull(req.Body, head[:]); err != nil {
		return nil, invalid(fmt.Errorf("length of the message: %w", err))
	}
	size := int64(head[1])<<24 | int64(head[2])<<16 | int64(head[3])<<8 | int64(head[4])
	if size > r.opt.MaxMessage {
		return nil, tooLarge(fmt.Errorf("a message of %d bytes, more than %s (--max-message)", size, bound.Bytes(r.opt.MaxMessage)))
	}
	packed := ""
	if head[0] != 0 {
		packed = req.Header.Get("Grpc-Encoding")
	}
	b, giveBack, err := r.body(&exactly{req.Body, size}, packed)
	defer giveBack()
	if err != nil {
		return nil, err
	}
	if n, err := req.Body.Read(head[:1]); n > 0 || err != io.EOF {
		return nil, invalid(errors.New("more than one message"))
	}
	batch, err := r.take(req.Context(), b, false)
	if err != nil {
		return nil, err
	}
	return response(batch), nil
}

// exactly reads so many bytes: fewer are an error.
type exactly struct {
	r    io.Reader
	left int64
}

func (e *exactly) Read(b []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(b[:min(int64(len(b)), e.left)])
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// percentEncoded is how gRPC has messages in trailers.
func percentEncoded(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// HTTPPath is where profiles are sent to by HTTP.
const HTTPPath = "/v1development/profiles"

// http serves POST of HTTPPath.
func (r *Receiver) http() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+HTTPPath, func(w http.ResponseWriter, req *http.Request) {
		media, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";")
		media = strings.ToLower(strings.TrimSpace(media))
		inJSON := media == "application/json"
		var batch *otlp.Batch
		err := checkVersion(req.Header)
		if err == nil && !inJSON && media != "application/x-protobuf" {
			err = &refusal{codeUnimplemented, http.StatusUnsupportedMediaType, errors.New("want the content type application/x-protobuf or application/json")}
		}
		if err == nil && req.ContentLength > r.opt.MaxMessage {
			err = tooLarge(fmt.Errorf("a message of %d bytes, more than %s (--max-message)", req.ContentLength, bound.Bytes(r.opt.MaxMessage)))
		}
		if err == nil {
			b, giveBack, bad := r.body(req.Body, req.Header.Get("Content-Encoding"))
			defer giveBack()
			if err = bad; err == nil {
				batch, err = r.take(req.Context(), b, inJSON)
			}
		}
		code, answer := http.StatusOK, []byte(nil)
		if err != nil {
			why := refused(err)
			r.refuse("http", req, why.http, why)
			if code = why.http; code == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", fmt.Sprint(int(retryAfter.Seconds())))
			}
			answer = statusOf(why, inJSON)
		} else if inJSON {
			answer = responseJSON(batch)
		} else {
			answer = response(batch)
		}
		r.page.answered("http", fmt.Sprint(code))
		if media = "application/x-protobuf"; inJSON {
			media = "application/json"
		}
		w.Header().Set("Content-Type", media)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(code)
		w.Write(answer)
	})
	return mux
}

// bytesField is a field of a message in protobuf: a string, or a message.
func bytesField(number byte, b []byte) []byte {
	return append(uvarint(number<<3|2, uint64(len(b))), b...)
}

func uvarint(key byte, v uint64) []byte {
	b := []byte{key}
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

// explained says what of a batch was not counted, or cannot be trusted.
func explained(b *otlp.Batch) string { return strings.Join(b.Warnings, "; ") }

// response is an ExportProfilesServiceResponse: partial_success = 1, if there is anything to say, with
// rejected_profiles = 1 and error_message = 2.
func response(b *otlp.Batch) []byte {
	if b.Rejected == 0 && len(b.Warnings) == 0 {
		return nil
	}
	var partial []byte
	if b.Rejected > 0 {
		partial = uvarint(1<<3, min(b.Rejected, math.MaxInt64))
	}
	return bytesField(1, append(partial, bytesField(2, []byte(explained(b)))...))
}

func responseJSON(b *otlp.Batch) []byte {
	if b.Rejected == 0 && len(b.Warnings) == 0 {
		return []byte("{}")
	}
	partial := map[string]string{"errorMessage": explained(b)}
	if b.Rejected > 0 {
		partial["rejectedProfiles"] = fmt.Sprint(b.Rejected)
	}
	text, _ := json.Marshal(map[string]any{"partialSuccess": partial}) // strings alone: no error
	return text
}

// statusOf is a google.rpc.Status: code = 1, message = 2.
func statusOf(why *refusal, inJSON bool) []byte {
	if inJSON {
		text, _ := json.Marshal(map[string]any{"code": why.grpc, "message": why.Error()})
		return text
	}
	return append(uvarint(1<<3, uint64(why.grpc)), bytesField(2, []byte(why.Error()))...)
}
