package image

// Returns finds where calls return to. It decodes the procedures that it is asked about, each once.
type Returns struct {
	im    *Image
	known map[int]bool // by symbol
	at    map[Addr]Addr
}

// NewReturns returns one of im.
func NewReturns(im *Image) *Returns {
	return &Returns{im, map[int]bool{}, map[Addr]Addr{}}
}

// Of returns the address that the call at site returns to; 0 if there is no call.
func (r *Returns) Of(site Addr) Addr {
	if i := r.im.Find(site); i >= 0 && !r.known[i] {
		r.known[i] = true
		if p, err := r.im.Proc(i); err == nil {
			for _, c := range p.Calls {
				if !c.Tail {
					r.at[c.Site] = c.Return
				}
			}
		}
	}
	return r.at[site]
}
