package s3

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// Scheme begins the address of a store in a bucket.
const Scheme = "s3://"

// Is reports whether a path is the address of a bucket.
func Is(path string) bool { return strings.HasPrefix(path, Scheme) }

// An Address says where the objects of a store are:
//
//	s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION
//
// PREFIX and what follows it may be missing. The endpoint is then that of
// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or else that of AWS; the region that of
// AWS_REGION or AWS_DEFAULT_REGION.
type Address struct {
	Bucket   string
	Prefix   string // "" or ends with a slash
	Endpoint *url.URL
	Region   string // "" is asked for
}

const awsHost = "s3.amazonaws.com"

// Parse takes an address apart. Its errors quote nothing that may be secret.
func Parse(address string) (Address, error) {
	var a Address
	u, err := url.Parse(address)
	if err != nil || !Is(address) || u.Host == "" {
		return a, errors.New("want an address such as s3://bucket/prefix")
	}
	if u.User != nil {
		return a, fmt.Errorf("s3://%s: no keys in an address, where others see them: they are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from ~/.aws/credentials or from the machine's role", u.Host)
	}
	a.Bucket = u.Host
	if p := strings.Trim(u.Path, "/"); p != "" {
		a.Prefix = p + "/"
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return a, fmt.Errorf("%s: what follows the ? cannot be read", Name(address))
	}
	for key := range q {
		if key != "endpoint" && key != "region" {
			return a, fmt.Errorf("%s: after the ?, want endpoint= or region=", Name(address))
		}
	}
	a.Region = first(q.Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	endpoint := first(q.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://"+awsHost)
	a.Endpoint, err = url.Parse(endpoint)
	if err != nil || a.Endpoint.Scheme != "http" && a.Endpoint.Scheme != "https" || a.Endpoint.Host == "" || a.Endpoint.User != nil || strings.Trim(a.Endpoint.Path, "/") != "" {
		return a, fmt.Errorf("%s: want an endpoint such as https://host:port", Name(address))
	}
	if a.Region == "" && a.Endpoint.Host != awsHost {
		a.Region = "us-east-1" // what servers of others take
	}
	return a, nil
}

// Name returns an address without what follows its path.
func Name(address string) string {
	name, _, _ := strings.Cut(address, "?")
	if scheme, rest, ok := strings.Cut(name, "://"); ok {
		if host, path, _ := strings.Cut(rest, "/"); strings.Contains(host, "@") {
			_, host, _ = strings.Cut(host, "@")
			name = scheme + "://" + host + "/" + path
		}
	}
	return clean(name)
}

func first(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}
