package fetch

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"backfeed/cmd/internal/report"
)

// A call is a message that is sent to a method of a service, and the header of what came back.
//
// Two protocols of them are spoken, each in its simplest form, over HTTP/1.1 or 2 and through proxies of either: that of
// Connect for one message each way, which is a POST of the message (connectrpc.com/docs/protocol, "Unary-Request"), and
// gRPC-Web, which has a frame around each message and the status in a last frame (grpc/grpc, doc/PROTOCOL-WEB.md).
type call struct {
	header http.Header
	body   []byte
	answer http.Header
	as     string // the address that the user gave; errors show it
	framed bool   // by gRPC-Web
}

// unavailable returns the error of an answer by which the server says that it cannot answer for now, where the protocol has
// that in frames and not in the status of HTTP: a client may ask again (grpc/grpc, doc/statuscodes.md, UNAVAILABLE).
func (c *call) unavailable(answer io.Writer) error {
	b, ok := answer.(*bytes.Buffer)
	if !ok || !c.framed {
		return nil
	}
	_, status, err := c.frames(b.Bytes())
	if status != grpcUnavailable {
		return nil
	}
	return err
}

// name is what errors call an address: that which the user gave.
func (f Fetcher) name(address string) string {
	if f.call != nil {
		address = f.call.as
	}
	return Name(address)
}

// secrets are the words that errors must not show.
func (f Fetcher) secrets(u *url.URL) words {
	all := secrets(u)
	if f.call != nil {
		if _, token, ok := strings.Cut(f.call.header.Get("Authorization"), " "); ok && token != "" {
			all = append(all, token, "...")
		}
	}
	return all
}

// post sends the call, and returns what came back.
func (f Fetcher) post(ctx context.Context, address string, c *call, maxBytes int64) ([]byte, error) {
	f.call = c
	return f.Get(ctx, address, maxBytes)
}

// connect sends a message by Connect's protocol and returns the answer.
func (f Fetcher) connect(ctx context.Context, address string, c *call, maxBytes int64) ([]byte, error) {
	c.header.Set("Content-Type", "application/proto")
	c.header.Set("Connect-Protocol-Version", "1")
	b, err := f.post(ctx, address, c, maxBytes)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(c.answer.Get("Content-Type")); kind != "application/proto" {
		return nil, fmt.Errorf("%s: answered in %q, not Connect's protocol: is another server there?", Name(c.as), report.Clean(kind))
	}
	return b, nil
}

// connectMessage returns what an error of Connect's protocol says; "" if it is none.
func connectMessage(resp *http.Response, b []byte) string {
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "application/json" {
		return ""
	}
	var e struct{ Code, Message string }
	if json.Unmarshal(b, &e) != nil {
		return ""
	}
	return strings.Trim(e.Code+": "+e.Message, ": ")
}

// Frames of gRPC: a byte of flags, and the length as four bytes.
const (
	frameHead     = 5
	frameZipped   = 1
	frameTrailers = 0x80 // of gRPC-Web alone
)

var errFrame = errors.New("no frame of gRPC-Web")

// grpcWeb sends a message by gRPC-Web and returns the answer.
func (f Fetcher) grpcWeb(ctx context.Context, address string, c *call, maxBytes int64) ([]byte, error) {
	c.header.Set("Content-Type", "application/grpc-web+proto")
	c.header.Set("Accept", "application/grpc-web+proto")
	c.header.Set("X-Grpc-Web", "1")
	c.framed = true
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(c.body)))
	c.body = append(head, c.body...)
	b, err := f.post(ctx, address, c, maxBytes)
	if err != nil {
		return nil, err
	}
	message, _, err := c.frames(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name(c.as), f.secretsOf(c).outOf(err))
	}
	return message, nil
}

// frames returns the message of an answer by gRPC-Web, and its status; "" if it has none.
func (c *call) frames(b []byte) (message []byte, status string, err error) {
	if kind, _, _ := mime.ParseMediaType(c.answer.Get("Content-Type")); !strings.HasPrefix(kind, "application/grpc-web") || strings.HasPrefix(kind, "application/grpc-web-text") {
		return nil, "", fmt.Errorf("answered in %q, not gRPC-Web: is another server there?", report.Clean(kind))
	}
	status, said := c.answer.Get("Grpc-Status"), c.answer.Get("Grpc-Message")
	messages := 0
	for rest := b; len(rest) > 0; {
		if len(rest) < frameHead || uint64(len(rest)-frameHead) < uint64(binary.BigEndian.Uint32(rest[1:])) {
			return nil, "", fmt.Errorf("offset %#x: %w", len(b)-len(rest), errFrame)
		}
		flags, n := rest[0], frameHead+int(binary.BigEndian.Uint32(rest[1:]))
		body := rest[frameHead:n]
		rest = rest[n:]
		switch {
		case flags == frameTrailers:
			for line := range bytes.Lines(body) {
				key, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
				switch strings.ToLower(key) {
				case "grpc-status":
					status = strings.TrimSpace(value)
				case "grpc-message":
					said = strings.TrimSpace(value)
				}
			}
		case flags != 0:
			return nil, "", fmt.Errorf("flags %#x: %w that was asked for", flags, errFrame)
		default:
			message = body
			messages++
		}
	}
	switch {
	case status == "":
		return nil, "", errors.New("the answer has no status: it is cut off")
	case status != "0":
		if text, err := url.PathUnescape(said); err == nil {
			said = text
		}
		return nil, status, fmt.Errorf("%s: %s", grpcStatus(status), report.Clean(said))
	case messages != 1:
		return nil, status, fmt.Errorf("%d messages, want one", messages)
	}
	return message, status, nil
}

// grpcUnavailable is a status of gRPC.
const grpcUnavailable = "14"

func (f Fetcher) secretsOf(c *call) words {
	f.call = c
	return f.secrets(&url.URL{})
}

// grpcStatus names a status of gRPC as its documents do.
func grpcStatus(code string) string {
	names := []string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
		"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}
	if n, err := strconv.Atoi(code); err == nil && n >= 0 && n < len(names) {
		return names[n]
	}
	return "status " + report.Clean(code)
}
