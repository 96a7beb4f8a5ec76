package report

import (
	"fmt"
	"html/template"
	"slices"
)

// A Flame is samples by call stack, as a tree: what a flame graph draws. It is the document flame
// of a server's /data.
type Flame struct {
	Schema    string         `json:"schema"`
	Event     string         `json:"event"`
	Inverted  bool           `json:"inverted"`            // the sampled procedure comes first, then its callers
	Procedure string         `json:"procedure,omitempty"` // the stacks through it alone, from there on; empty is all
	Stacks    UsertimeStacks `json:"stacks"`              // of the recording
	Left      int            `json:"left_out"`            // nodes that are together with others in one of kind "rest"
	Images    []string       `json:"images"`
	Frames    []FlameFrame   `json:"frames"`
	Root      *FlameNode     `json:"root"`

	Before  *UsertimeStacks `json:"before,omitempty"`  // of an older recording; absent if none is compared with
	Changes []FlameChange   `json:"changes,omitempty"` // frames by their difference, as Judge has them

	Names Style `json:"-"`
}

// A FlameFrame is what nodes are of. Its Kind is one of these.
type FlameFrame struct {
	Name
	Kind  string `json:"kind"`
	Image int    `json:"image"`          // index into Images; -1 is none
	Page  string `json:"page,omitempty"` // the path of the procedure's page; empty if it has none
}

const (
	FlameAll       = "all"       // the root
	FlameProcedure = "procedure" // also code of no procedure
	FlameInlined   = "inlined"   // a function of the source that is inlined in the procedure below it; its caller, in an inverted tree
	FlameCut       = "cut"       // stands for the callers that a stack ends before
	FlameBare      = "bare"      // stands for all callers, of samples without a stack
	FlameUnknown   = "unknown"   // a frame that lies in no known image
	FlameRest      = "rest"      // siblings with few samples, together
)

// A FlameNode is the samples of a frame and of those that lie on it.
type FlameNode struct {
	Frame    int          `json:"frame"` // index into Frames
	Samples  uint64       `json:"samples"`
	Self     uint64       `json:"self"` // of Samples: those that end here
	Cause    string       `json:"cause,omitempty"`
	Share    float64      `json:"cause_share,omitempty"` // of the samples: time that Cause is likeliest to explain
	Before   uint64       `json:"before,omitempty"`      // samples of the older recording
	Change   float64      `json:"change,omitempty"`      // of the share of all samples, now minus before
	Real     bool         `json:"real,omitempty"`        // chance does not explain Change
	Children []*FlameNode `json:"children,omitempty"`    // the most samples first
}

const (
	treeShare = 0.01 // of the samples: a node with fewer is not in the tree without scripts
	openShare = 0.05 // likewise: one with fewer is folded
	treeNodes = 600  // in the tree without scripts, at most
)

type treeNode struct {
	Name, Href, Kind   string
	Share, Self, Cause string
	Samples            string
	Width              float64
	Open               bool
	Children           []treeNode
	Left               int // children that are not here
	LeftSamples        string
}

// HTML returns a place for the picture that a script draws of the document so called, and the
// tree as markup that needs none: nested lists of what has a hundredth of the samples.
func (f *Flame) HTML(document string) (template.HTML, error) {
	room := treeNodes
	root := f.tree(f.Root, &room)
	return markup("flame.tmpl", map[string]any{"Document": document, "Root": root, "Units": barUnits, "What": AmountHead(f.Event)})
}

func (f *Flame) tree(n *FlameNode, room *int) treeNode {
	frame, all := &f.Frames[n.Frame], float64(max(1, f.Root.Samples))
	out := treeNode{Name: frame.In(f.Names), Href: frame.Page, Kind: frame.Kind, Share: Percent(float64(n.Samples) / all), Samples: AmountOf(f.Event, n.Samples),
		Width: units(float64(n.Samples) / all), Open: float64(n.Samples) >= openShare*all}
	if n.Self > 0 && len(n.Children) > 0 {
		out.Self = Percent(float64(n.Self) / all)
	}
	if n.Cause != "" {
		out.Cause = fmt.Sprintf("%s %s", n.Cause, Percent(n.Share))
	}
	left := uint64(0)
	for _, c := range n.Children {
		if float64(c.Samples) < treeShare*all || *room <= 0 || f.Frames[c.Frame].Kind == FlameRest {
			out.Left, left = out.Left+1, left+c.Samples
			continue
		}
		*room--
		out.Children = append(out.Children, f.tree(c, room))
	}
	out.LeftSamples = Percent(float64(left) / all)
	return out
}

// Prune puts nodes together that have few samples, so that not many more than most are left.
func (f *Flame) Prune(most int) {
	var all []uint64
	var walk func(n *FlameNode)
	walk = func(n *FlameNode) {
		all = append(all, n.Samples)
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(f.Root)
	if len(all) <= most {
		return
	}
	slices.Sort(all)
	least := all[len(all)-most] + 1
	rest := -1
	walk = func(n *FlameNode) {
		k := slices.IndexFunc(n.Children, func(c *FlameNode) bool { return c.Samples < least })
		if k < 0 {
			k = len(n.Children)
		}
		if small := n.Children[k:]; len(small) > 1 {
			if rest < 0 {
				rest = len(f.Frames)
				f.Frames = append(f.Frames, FlameFrame{Name: Name{Procedure: "(smaller ones)"}, Kind: FlameRest, Image: -1})
			}
			one := &FlameNode{Frame: rest}
			for _, c := range small {
				one.Samples += c.Samples
				one.Before += c.Before
			}
			one.Self = one.Samples
			f.Left += len(small)
			n.Children = append(n.Children[:k:k], one)
		}
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(f.Root)
}

// Compact leaves out the frames that no node and no change is of.
func (f *Flame) Compact() {
	to := make([]int, len(f.Frames)) // the new index, plus 1
	var frames []FlameFrame
	var walk func(n *FlameNode)
	walk = func(n *FlameNode) {
		if to[n.Frame] == 0 {
			frames = append(frames, f.Frames[n.Frame])
			to[n.Frame] = len(frames)
		}
		n.Frame = to[n.Frame] - 1
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(f.Root)
	for i := range f.Changes {
		c := &f.Changes[i]
		if to[c.Frame] == 0 {
			frames = append(frames, f.Frames[c.Frame])
			to[c.Frame] = len(frames)
		}
		c.Frame = to[c.Frame] - 1
	}
	f.Frames = frames
}

// Check reports the first promise that f breaks. Tests call it on every Flame.
func (f *Flame) Check() error {
	var walk func(n *FlameNode) error
	walk = func(n *FlameNode) error {
		sum := n.Self
		for i, c := range n.Children {
			if sum += c.Samples; i > 0 && f.Frames[c.Frame].Kind != FlameRest && c.Samples > n.Children[i-1].Samples {
				return fmt.Errorf("%s comes behind one with fewer samples", f.Frames[c.Frame].Procedure)
			}
			if err := walk(c); err != nil {
				return err
			}
		}
		if sum != n.Samples || n.Samples == 0 && n != f.Root || !(n.Share >= 0 && n.Share <= 1+1e-9) {
			return fmt.Errorf("%s: %d samples, %d in it and above, cause %v", f.Frames[n.Frame].Procedure, n.Samples, sum, n.Share)
		}
		return nil
	}
	return walk(f.Root)
}
