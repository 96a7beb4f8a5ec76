// Package fetch gets files over HTTP as jobs need it that nobody watches: bounded in size and in time, tried again where
// that may help, and either whole or an error. An error never has a password, or what follows the question mark of an
// address: logs are read by many. Servers of profiles (Parca, Pyroscope) are asked for what they merge of many machines'
// samples, by a handful of messages that are written here. It keeps nothing; package input reads what it got, and looks up
// images with it.
package fetch
