package record

import (
	"slices"
	"strconv"
	"strings"
)

// handMark stands between a part's name and the number of a hand other than the
// first.
const handMark = "@"

// OfHand names what belongs to a trial's hand number i of what is PART: the first
// hand's has the part's name.
func OfHand(part string, i int) string {
	if i == 0 {
		return part
	}
	return part + handMark + strconv.Itoa(i)
}

// PartOfHand is the part of what [OfHand] names.
func PartOfHand(name string) string {
	part, _, _ := strings.Cut(name, handMark)
	return part
}

// MachineOf is what a part ran on, in words; "" if that is not known of each of its pods.
func (t *Trial) MachineOf(part string) string {
	var on []string
	for name, at := range t.Nodes {
		if PartOfHand(name) != part {
			continue
		}
		if at.Machine == "" {
			return ""
		}
		on = append(on, at.Machine)
	}
	slices.Sort(on)
	return strings.Join(slices.Compact(on), " and ")
}

// ThreadsOf are the threads of a part, and of how many there are: if several hands
// have one each, those of the busiest, the one that has the thread that served for the
// longest. They are never added up: each is held back by itself.
func (t *Trial) ThreadsOf(part string) (out Threads, of int) {
	busiest := -1.0
	for i := range max(1, len(t.Hands)) {
		th, ok := t.Threads[OfHand(part, i)]
		if !ok || th.Seconds <= 0 {
			continue
		}
		of++
		busy := 0.0
		for _, one := range Serving(th.Threads) {
			busy = max(busy, one.CPU.TotalS()/th.Seconds)
		}
		if busy > busiest {
			out, busiest = th, busy
		}
	}
	return out, of
}

// Hand is one of several generators that sent a trial's requests together. What it
// counted is of the window.
type Hand struct {
	Pod         string `json:"pod"`
	Node        string `json:"node"`
	Connections int    `json:"connections"`
	Scheduled   int64  `json:"scheduled"`
	Completed   int64  `json:"completed"`
	CPU         CPU    `json:"cpu"` // its own account (getrusage)
	// Before is how its clock stood beside the first generator's before the start,
	// which was corrected by it; After how it did once the window was over. Both are
	// 0 for generators on the node of the first: they have one clock.
	Before Clock `json:"clock_before"`
	After  Clock `json:"clock_after"`
}

// Simulator is one of several pods that had a trial's simulated proxies together.
type Simulator struct {
	Pod     string `json:"pod"`
	Node    string `json:"node"`
	Proxies int    `json:"proxies"`
	// CPU is its own account of the window (getrusage), and Lag how late it read then.
	CPU      CPU       `json:"cpu"`
	Lag      Quantiles `json:"lag_us"`
	RSSBytes int64     `json:"rss_bytes"`
	// Before is how its clock stood beside the first one's before the window, by which
	// all of its times are corrected; After how it did once the window was over. Both
	// are 0 for those on the node of the first: they have one clock.
	Before Clock `json:"clock_before"`
	After  Clock `json:"clock_after"`
}

// Clock is how far a clock is ahead of another, and how wrong that may be either
// way, in microseconds.
type Clock struct {
	AheadUS float64 `json:"ahead_us"`
	ErrorUS float64 `json:"error_us"`
}
