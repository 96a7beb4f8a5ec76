// Package s3 holds the requests that a store makes to a bucket: get an object or a part of
// it, put one that is not there, replace one that nobody changed, list names, delete.
//
// It asks again what may pass, and waits as long as a server wants. What an object is made
// of is nothing to it: whoever reads an object checks it. Neither errors nor anything else
// that it returns has credentials in it.
//
// Package store decides which objects there are.
package s3
