// Service is a program to be calibrated under load, and the load. With an address it serves, and prints where: each
// request parses a document, sorts what is in it and compresses it. With "load", an address, a rate and
// a time it sends requests at that rate, at random moments and whether or not those before were
// answered, and prints the quantiles of how long answers took, in ms.
package main

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

type item struct {
	Name  string
	Price float64
}

func document() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	items := make([]item, 400)
	for i := range items {
		items[i] = item{strconv.Itoa(r.IntN(1e6)), r.Float64()}
	}
	b, err := json.Marshal(items)
	if err != nil {
		log.Fatal(err)
	}
	return b
}

func serve(w http.ResponseWriter, r *http.Request) {
	var items []item
	if err := json.NewDecoder(r.Body).Decode(&items); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.Price, b.Price) })
	out, err := flate.NewWriter(w, flate.BestSpeed)
	if err != nil {
		log.Fatal(err)
	}
	json.NewEncoder(out).Encode(items)
	out.Close()
}

func load(url string, rate float64, length time.Duration) error {
	body := document()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var all sync.WaitGroup
	next := time.Now()
	for end := next.Add(length); next.Before(end); next = next.Add(time.Duration(rand.ExpFloat64() / rate * 1e9)) {
		time.Sleep(time.Until(next))
		due := next // a request that is sent late waits from when it was due
		all.Go(func() {
			answer, err := client.Post(url, "application/json", bytes.NewReader(body))
			if err == nil {
				_, err = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			took, failed = append(took, time.Since(due)), cmp.Or(failed, err)
		})
	}
	all.Wait()
	if failed != nil {
		return failed
	}
	slices.Sort(took)
	fmt.Printf("%d requests:", len(took))
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
		at := min(int(q*float64(len(took))), len(took)-1)
		fmt.Printf(" p%g %.2f", 100*q, took[at].Seconds()*1e3)
	}
	fmt.Println()
	return nil
}

func main() {
	if len(os.Args) == 2 {
		l, err := net.Listen("tcp", os.Args[1])
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(l.Addr())
		log.Fatal(http.Serve(l, http.HandlerFunc(serve)))
	}
	if len(os.Args) != 5 || os.Args[1] != "load" {
		log.Fatal("usage: service ADDRESS | service load ADDRESS RATE TIME")
	}
	rate, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		log.Fatal(err)
	}
	length, err := time.ParseDuration(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	if err := load("http://"+os.Args[2], rate, length); err != nil {
		log.Fatal(err)
	}
}
