// Package receive takes the profiles that OpenTelemetry's profilers and collectors send, by gRPC and by HTTP, into a
// store: as segments of epochs, like those of package agent, whose rules it shares.
//
// A request is answered when its samples are counted, and these are in the store one --flush later, or when the
// receiver is told to end. While the store takes nothing, requests are refused in the way that has senders try again.
// It refuses what is malformed, of another version of the signal or too large, in the way that has them not try again.
//
// gRPC is served by net/http, which has HTTP/2: one method that takes one message and returns one is a frame of five
// bytes and three trailers. grpc-go would bring 6.2 MB to a stripped binary (5,722,274 bytes with net/http, 11,935,906
// with grpc-go beside it) and 4 modules, and connections of its own beside those that package listen bounds; the
// collector's receiver brings that and the collector. Tests talk to it by grpc-go and the collector's library.
package receive
