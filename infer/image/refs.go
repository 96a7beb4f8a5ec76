package image

// refs are the places that code and data refer to, of a whole image.
type refs struct {
	taken   []bool         // by symbol: its address is taken
	entries map[int][]Addr // by symbol: where others jump to behind its start
}
