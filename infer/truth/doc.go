// Package truth holds exact counts, those of callgrind and of Go's coverage: it reads them,
// puts them to places of an image, and says how near a counts document comes to them.
//
// It refuses files that contradict themselves and images that cannot be what was counted,
// and estimates nothing.
//
// Package infer takes exact counts, once they are part of a recording, beside samples;
// commands and infer's own tests judge what it infers by an Accuracy.
package truth
