// Package script holds the scripts of all pages as one text, which package report puts into
// each: bundle.js, made of the modules beside it and of the libraries in third_party.
//
// Pages are whole without it. It refuses what would need a network, and to be markup where
// a page is read as XML. What it does is in its modules; README.md says how to add one.
package script

import _ "embed" // bundle.js

//go:generate go test -run ^TestBundle$ . -update

// Bundle is JavaScript, without what ends a script element or a CDATA section.
//
//go:embed bundle.js
var Bundle string
