package graph

import (
	"cmp"
	"slices"
)

// Layout says where to draw a graph's services, in units of one service: layers
// from left to right, callers before callees.
type Layout struct {
	Nodes  []Node  `json:"nodes"` // in the graph's order
	Lines  []Line  `json:"lines"` // one for each pair of caller and callee
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	Layers int     `json:"layers"`
}

// Node is the position of a service: X is the middle of its layer.
type Node struct {
	Service string  `json:"service"`
	Layer   int     `json:"layer"`
	Order   int     `json:"order"` // within the layer, from the top
	X       float64 `json:"x"`
	Y       float64 `json:"y"`
}

// Line connects two nodes, by their indices. Via are its points in the layers
// between them.
type Line struct {
	From int          `json:"from"`
	To   int          `json:"to"`
	Via  [][2]float64 `json:"via,omitempty"`
}

// sweeps is how often layers are reordered by their neighbours to the right, then to the left.
const sweeps = 4

// maxPassed limits the number of layers that lines pass in total.
const maxPassed = 20_000

// Layout places the services of a graph that passed its check. A service's layer
// is its longest distance from a root. Within a layer, services are ordered by the
// barycentre of their neighbours, which avoids most crossings (Sugiyama, Tagawa
// and Toda 1981).
func (g Graph) Layout() Layout {
	index := g.index()
	layer := make([]int, len(g.Services))
	var l Layout
	for _, i := range g.order() {
		l.Layers = max(l.Layers, layer[i]+1)
		for _, call := range g.Services[i].Calls {
			to := index[call.To]
			layer[to] = max(layer[to], layer[i]+1)
		}
	}
	p := &placing{layers: make([][]int, l.Layers)}
	for i := range g.Services {
		p.add(layer[i])
	}
	// A line that passes layers gets a place in each of them, unless there are
	// too many to draw.
	passed := 0
	for i, s := range g.Services {
		for _, call := range s.Calls {
			passed += layer[index[call.To]] - layer[i] - 1
		}
	}
	var ways [][]int
	for i, s := range g.Services {
		seen := map[int]bool{}
		for _, call := range s.Calls {
			to := index[call.To]
			if seen[to] {
				continue
			}
			seen[to] = true
			l.Lines = append(l.Lines, Line{From: i, To: to})
			if passed > maxPassed && layer[to] > layer[i]+1 {
				ways = append(ways, nil)
				continue
			}
			way := []int{i}
			for k := layer[i] + 1; k < layer[to]; k++ {
				way = append(way, p.add(k))
			}
			way = append(way, to)
			for n := 1; n < len(way); n++ {
				p.next[way[n-1]] = append(p.next[way[n-1]], way[n])
				p.before[way[n]] = append(p.before[way[n]], way[n-1])
			}
			ways = append(ways, way)
		}
	}
	p.sweep()
	tallest := 0
	for _, nodes := range p.layers {
		tallest = max(tallest, len(nodes))
	}
	at := func(n int) (x, y float64) {
		k := p.layer[n]
		return float64(k) + 0.5, float64(p.order[n]) + 0.5 + float64(tallest-len(p.layers[k]))/2
	}
	for i, s := range g.Services {
		x, y := at(i)
		l.Nodes = append(l.Nodes, Node{s.Name, layer[i], p.order[i], x, y})
	}
	for n, way := range ways {
		for _, via := range way[min(1, len(way)):max(0, len(way)-1)] {
			x, y := at(via)
			l.Lines[n].Via = append(l.Lines[n].Via, [2]float64{x, y})
		}
	}
	l.Width, l.Height = float64(l.Layers), float64(tallest)
	return l
}

// placing orders nodes within layers. The first nodes are the services; the rest
// are lines that pass a layer.
type placing struct {
	layers       [][]int // nodes by layer, in order
	layer, order []int   // of each node
	next, before [][]int // neighbours of each node
}

func (p *placing) add(layer int) int {
	n := len(p.layer)
	p.layer = append(p.layer, layer)
	p.order = append(p.order, len(p.layers[layer]))
	p.layers[layer] = append(p.layers[layer], n)
	p.next = append(p.next, nil)
	p.before = append(p.before, nil)
	return n
}

func (p *placing) sweep() {
	for range sweeps {
		for k := len(p.layers) - 2; k >= 0; k-- {
			p.arrange(k, p.next)
		}
		for k := 1; k < len(p.layers); k++ {
			p.arrange(k, p.before)
		}
	}
}

// arrange orders a layer by the barycentre of its nodes' neighbours. Nodes without
// neighbours keep their place.
func (p *placing) arrange(k int, neighbours [][]int) {
	middle := make(map[int]float64, len(p.layers[k]))
	for _, n := range p.layers[k] {
		middle[n] = float64(p.order[n])
		if len(neighbours[n]) > 0 {
			sum := 0.0
			for _, m := range neighbours[n] {
				sum += (float64(p.order[m]) + 0.5) / float64(len(p.layers[p.layer[m]]))
			}
			middle[n] = sum / float64(len(neighbours[n])) * float64(len(p.layers[k]))
		}
	}
	slices.SortStableFunc(p.layers[k], func(x, y int) int { return cmp.Compare(middle[x], middle[y]) })
	for order, n := range p.layers[k] {
		p.order[n] = order
	}
}
