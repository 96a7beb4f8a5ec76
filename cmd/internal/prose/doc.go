// Package prose lays out the Markdown of help, for terminals of a width and for man: its
// paragraphs, lists, tables, and definitions, which the texts of commands have. It refuses no
// text and is for no other Markdown. What is explained, and in which order, cmd/backfeed says.
package prose
