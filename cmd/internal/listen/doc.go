// Package listen holds servers of this machine to few connections and to requests that
// were meant for them, so that no page of another site has a browser read what they show.
// It refuses what names another host or comes from another site, and answers nothing itself.
// Packages web and agent take over, with their pages and figures.
package listen
