package main

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// setup makes a zone. The work is to parse it and to answer questions by it, as a server of names does. It takes nothing of its input.
func setup([]byte) func() int {
	var text strings.Builder
	text.WriteString("$TTL 3600\n@ IN SOA ns1 hostmaster 1 7200 3600 1209600 3600\n@ IN NS ns1\n")
	for i := range 300 {
		fmt.Fprintf(&text, "host%d IN A 10.0.%d.%d\nhost%[1]d IN AAAA 2001:db8::%[1]x\n", i, i/250, i%250+1)
		if i%3 == 0 {
			fmt.Fprintf(&text, "host%d IN TXT \"some text %[1]d\" \"v=spf1 -all\"\n", i)
		}
		if i%5 == 0 {
			fmt.Fprintf(&text, "host%d IN MX 10 mail%d.example.org.\n", i, i%7)
		}
		if i%4 == 0 {
			fmt.Fprintf(&text, "_sip._tcp.h%d IN SRV 10 20 5060 host%[1]d\n", i)
		}
	}
	return func() int {
		zone := map[string][]dns.RR{}
		zp := dns.NewZoneParser(strings.NewReader(text.String()), "example.org.", "zone")
		var names []string
		for rr, ok := zp.Next(); ok; rr, ok = zp.Next() {
			name := rr.Header().Name
			if zone[name] == nil {
				names = append(names, name)
			}
			zone[name] = append(zone[name], rr)
		}
		check(zp.Err())
		made := 0
		for range 20 {
			for _, name := range names {
				q := new(dns.Msg)
				q.SetQuestion(name, dns.TypeA)
				q.SetEdns0(4096, true)
				asked := passed(q)
				answer := new(dns.Msg)
				answer.SetReply(asked)
				answer.Compress = true
				answer.Answer = zone[asked.Question[0].Name]
				made += len(passed(answer).Answer)
			}
		}
		return made
	}
}

// passed is a message as the other side reads it.
func passed(m *dns.Msg) *dns.Msg {
	b, err := m.Pack()
	check(err)
	read := new(dns.Msg)
	check(read.Unpack(b))
	return read
}
