package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

var (
	// ErrChanged is wrapped where an object is not what it is to be replaced as.
	ErrChanged = errors.New("changed meanwhile")
	// ErrClock is wrapped where a server refuses what is signed because the clocks differ.
	ErrClock = errors.New("the clock here and that of the server differ by too much, so the server takes no request: set the clock")
	// ErrTooLarge is wrapped by the error of an object that has more bytes than were asked for.
	ErrTooLarge = errors.New("too large")
)

const (
	// tries is how often a request is made; the pauses between are 0.5, 1, 2 and 4 s, give or take half.
	tries      = 5
	firstPause = 500 * time.Millisecond
	// longestPause bounds what a server may ask to wait for.
	longestPause = time.Minute
	// patience is how long one request may take, and slowest the bytes a second that it may take longer for.
	patience = 30 * time.Second
	slowest  = 64 << 10
)

// Options say how requests are made. The zero Options are the usual ones.
type Options struct {
	Transport http.RoundTripper // nil is the usual one
	Tries     int               // at most; 0 is the usual number
	Pause     time.Duration     // before the second try, about; 0 is half a second
	Patience  time.Duration     // with one request; 0 is 30 s

	// Retry is called before a request is made again, with what was wrong and how long that is put off. nil is
	// not called.
	Retry func(why error, in time.Duration)
}

// A Bucket is the objects of a bucket below a prefix. Its methods may be called by several
// goroutines.
type Bucket struct {
	core    minio.Core
	address Address
	opt     Options
	meter   *meter
	creds   *credentials.Credentials
}

// Open prepares requests to a bucket. It makes none.
func Open(address string, opt Options) (*Bucket, error) {
	a, err := Parse(address)
	if err != nil {
		return nil, err
	}
	next := opt.Transport
	if next == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableCompression = true // the number of bytes shows whether all came
		t.MaxIdleConnsPerHost = 64
		next = t
	}
	b := &Bucket{address: a, opt: opt, meter: &meter{next: next}}
	// As the command line tools of AWS look for them; the last asks the machine that this one runs on.
	b.creds = credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{},
		&credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}},
	})
	client, err := minio.New(a.Endpoint.Host, &minio.Options{
		Creds: b.creds, Secure: a.Endpoint.Scheme == "https", Region: a.Region, Transport: b.meter, MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", Scheme, a.Bucket, b.hide(err))
	}
	b.core = minio.Core{Client: client}
	return b, nil
}

// Traffic returns what was asked for so far.
func (b *Bucket) Traffic() Traffic { return b.meter.traffic() }

// Now returns the time that the server's last answer had, or that of this machine before
// there was one. Only what the server says of its objects can be compared with it.
func (b *Bucket) Now() time.Time { return time.Now().Add(time.Duration(b.meter.skew.Load())) }

// A Range is a part of an object. From below 0 counts from its end. The zero Range is all of
// it.
type Range struct{ From, N int64 }

// Get returns an object or a part of it, of at most so many bytes, and its ETag. The error
// wraps fs.ErrNotExist if there is none.
func (b *Bucket) Get(ctx context.Context, key string, part Range, most int64) (data []byte, etag string, err error) {
	err = b.try(ctx, key, part.N, func(ctx context.Context) error {
		var opt minio.GetObjectOptions
		switch {
		case part.From < 0:
			opt.Set("Range", fmt.Sprintf("bytes=%d", part.From))
		case part.N > 0:
			opt.Set("Range", fmt.Sprintf("bytes=%d-%d", part.From, part.From+part.N-1))
		}
		r, info, header, err := b.core.GetObject(ctx, b.address.Bucket, b.address.Prefix+key, opt)
		if err != nil {
			return err
		}
		defer r.Close()
		data, err = io.ReadAll(io.LimitReader(r, most+1))
		switch {
		case err != nil:
			return err
		case int64(len(data)) > most:
			return fmt.Errorf("more than %d bytes: %w", most, ErrTooLarge)
		case info.Size >= 0 && header.Get("Content-Length") != "" && int64(len(data)) != info.Size,
			part.From >= 0 && int64(len(data)) > part.N && part.N > 0:
			return fmt.Errorf("%d bytes of %d: %w", len(data), info.Size, io.ErrUnexpectedEOF)
		}
		etag = info.ETag
		return nil
	})
	return data, etag, err
}

// Put makes an object that is not there. The error wraps fs.ErrExist if there is one, which
// may be of a request before that seemed to have failed.
func (b *Bucket) Put(ctx context.Context, key string, data []byte) (etag string, err error) {
	return b.PutFrom(ctx, key, bytes.NewReader(data))
}

// PutFrom is Put of what a reader has from its start to its end.
func (b *Bucket) PutFrom(ctx context.Context, key string, r io.ReadSeeker) (etag string, err error) {
	var opt minio.PutObjectOptions
	opt.SetMatchETagExcept("*")
	etag, err = b.put(ctx, key, r, opt)
	if errors.Is(err, ErrChanged) {
		err = fmt.Errorf("%s: %w", key, fs.ErrExist)
	}
	return etag, err
}

// Replace makes an object of an old one that has that ETag, or where there is none if it is
// "". The error wraps ErrChanged if what is there is another.
func (b *Bucket) Replace(ctx context.Context, key string, data []byte, old string) (etag string, err error) {
	var opt minio.PutObjectOptions
	if old == "" {
		opt.SetMatchETagExcept("*")
	} else {
		opt.SetMatchETag(old)
	}
	return b.put(ctx, key, bytes.NewReader(data), opt)
}

// Overwrite makes an object, whatever is there.
func (b *Bucket) Overwrite(ctx context.Context, key string, data []byte) error {
	_, err := b.put(ctx, key, bytes.NewReader(data), minio.PutObjectOptions{})
	return err
}

func (b *Bucket) put(ctx context.Context, key string, r io.ReadSeeker, opt minio.PutObjectOptions) (etag string, err error) {
	// The server is told both sums, so that it takes the whole object or nothing.
	sum, check := sha256.New(), md5.New()
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	n, err := io.Copy(io.MultiWriter(sum, check), r)
	if err != nil {
		return "", err
	}
	err = b.try(ctx, key, n, func(ctx context.Context) error {
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return err
		}
		// A reader of its own: what is closed, or goes on to be read after an error, is not r.
		info, err := b.core.PutObject(ctx, b.address.Bucket, b.address.Prefix+key, onlyReader{io.LimitReader(r, n)}, n,
			base64.StdEncoding.EncodeToString(check.Sum(nil)), hex.EncodeToString(sum.Sum(nil)), opt)
		etag = info.ETag
		return err
	})
	return etag, err
}

type onlyReader struct{ io.Reader }

// An Object is what a listing says of one.
type Object struct {
	Key      string // without the prefix of the bucket
	Size     int64
	ETag     string
	Modified time.Time // by the server's clock
}

// List calls f with the objects whose keys begin with prefix and come after a key, by their keys, until it returns
// false.
func (b *Bucket) List(ctx context.Context, prefix, after string, f func(Object) bool) error {
	if after != "" {
		after = b.address.Prefix + after
	}
	token := ""
	for {
		var page minio.ListBucketV2Result
		err := b.try(ctx, prefix, 0, func(context.Context) (err error) {
			// The library takes no context here; it ends with the request.
			page, err = b.core.ListObjectsV2(b.address.Bucket, b.address.Prefix+prefix, after, token, "", 1000)
			return err
		})
		if err != nil {
			return err
		}
		for _, o := range page.Contents {
			key, ok := strings.CutPrefix(o.Key, b.address.Prefix)
			if !ok || !strings.HasPrefix(key, prefix) {
				continue
			}
			if !f(Object{Key: key, Size: o.Size, ETag: strings.Trim(o.ETag, `"`), Modified: o.LastModified}) {
				return nil
			}
		}
		if !page.IsTruncated {
			return nil
		}
		if page.NextContinuationToken == "" || page.NextContinuationToken == token {
			return fmt.Errorf("%s: the server says that there is more, and not where", prefix)
		}
		token = page.NextContinuationToken
	}
}

// Delete removes an object, if it is there.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	err := b.try(ctx, key, 0, func(ctx context.Context) error {
		return b.core.RemoveObject(ctx, b.address.Bucket, b.address.Prefix+key, minio.RemoveObjectOptions{})
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// try makes a request of about so many bytes until it is answered.
func (b *Bucket) try(ctx context.Context, key string, n int64, ask func(context.Context) error) error {
	pause := cmp.Or(b.opt.Pause, firstPause)
	for i := 1; ; i++ {
		if err := b.wait(ctx, b.meter.wait(b.Now())); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		one, cancel := context.WithTimeout(ctx, cmp.Or(b.opt.Patience, patience)+time.Duration(n/slowest)*time.Second)
		err := ask(one)
		cancel()
		if err == nil {
			return nil
		}
		again, err := b.judge(err)
		if err = fmt.Errorf("%s: %w", clean(key), err); !again || i == cmp.Or(b.opt.Tries, tries) || ctx.Err() != nil {
			return err
		}
		in := pause/2 + rand.N(pause) // not all at the same time
		if b.opt.Retry != nil {
			b.opt.Retry(err, in)
		}
		b.meter.retries.Add(1)
		if err := b.wait(ctx, in); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		pause *= 2
	}
}

func (b *Bucket) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(d, longestPause)):
		return nil
	}
}

// judge reports whether a failure may pass, and what it is.
func (b *Bucket) judge(err error) (again bool, _ error) {
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) || answer.StatusCode == 0 && answer.Code == "" {
		return !errors.Is(err, context.Canceled) && !errors.Is(err, ErrTooLarge), b.hide(err)
	}
	text := answer.Code
	if answer.Message != "" && answer.Message != answer.Code {
		text += ": " + answer.Message
	}
	said := b.hide(errors.New(text))
	switch answer.Code {
	case "NoSuchKey":
		return false, fmt.Errorf("%w: %w", fs.ErrNotExist, said)
	case "PreconditionFailed":
		return false, fmt.Errorf("%w: %w", ErrChanged, said)
	case "RequestTimeTooSkewed":
		return false, fmt.Errorf("%w (by about %v): %w", ErrClock, time.Duration(b.meter.skew.Load()).Round(time.Second), said)
	case "ConditionalRequestConflict", "OperationAborted", "SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout",
		"BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody": // what was sent came through wrong
		return true, said
	}
	switch s := answer.StatusCode; {
	case s == http.StatusPreconditionFailed:
		return false, fmt.Errorf("%w: %w", ErrChanged, said)
	case s == http.StatusRequestTimeout || s == http.StatusTooManyRequests || s >= 500 && s != http.StatusNotImplemented:
		return true, said
	}
	return false, said
}

// hide returns err without credentials, and without what a terminal would obey.
func (b *Bucket) hide(err error) error {
	text := clean(err.Error())
	if b.creds.IsExpired() { // none are looked for to hide them
		return hidden{text, err}
	}
	if v, bad := b.creds.GetWithContext(nil); bad == nil {
		for _, secret := range []string{v.SecretAccessKey, v.SessionToken, v.AccessKeyID} {
			if secret != "" {
				text = strings.ReplaceAll(text, secret, "...")
			}
		}
	}
	return hidden{text, err}
}

// A hidden error has a text of its own.
type hidden struct {
	text string
	err  error
}

func (h hidden) Error() string { return h.text }

// Is lets the kinds of errors be told that the callers of this package know. The error itself is not let out.
func (h hidden) Is(target error) bool {
	switch target {
	case context.Canceled, context.DeadlineExceeded, io.ErrUnexpectedEOF, ErrTooLarge, ErrChanged:
		return errors.Is(h.err, target)
	}
	return false
}

// clean returns text as one line of printable characters.
func clean(text string) string {
	const most = 300
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return ' '
		}
		return r
	}, text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
