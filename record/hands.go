package record

import (
	"slices"
	"strconv"
	"strings"
)

// handMark separates a part's name from the number of a hand other than the first.
const handMark = "@"

// OfHand returns the key of a part for a trial's hand number i. For the first hand it is
// the part's name.
func OfHand(part string, i int) string {
	if i == 0 {
		return part
	}
	return part + handMark + strconv.Itoa(i)
}

// PartOfHand returns the part of a key from [OfHand].
func PartOfHand(name string) string {
	part, _, _ := strings.Cut(name, handMark)
	return part
}

// MachineOf describes the machine that a part ran on; "" unless it is known for each of
// the part's pods.
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

// ThreadsOf returns the threads of a part and the number of hands that have such threads.
// With several hands it returns those of the busiest, which has the thread that served
// longest. The threads are never added up because each is limited individually.
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

// Hand is one of several generators that sent a trial's requests together. Its counts
// cover the window.
type Hand struct {
	Pod         string `json:"pod"`
	Node        string `json:"node"`
	Connections int    `json:"connections"`
	Scheduled   int64  `json:"scheduled"`
	Completed   int64  `json:"completed"`
	CPU         CPU    `json:"cpu"` // its own account (getrusage)
	// Before is the offset of its clock from the first generator's before the start,
	// which is used for correction; After is the offset after the window. Both are 0 for
	// generators on the first one's node, which share its clock.
	Before Clock `json:"clock_before"`
	After  Clock `json:"clock_after"`
}

// Simulator is one of several pods that share a trial's simulated proxies.
type Simulator struct {
	Pod     string `json:"pod"`
	Node    string `json:"node"`
	Proxies int    `json:"proxies"`
	// CPU is its own account of the window (getrusage). Lag is the delay with which it
	// read in that time.
	CPU      CPU       `json:"cpu"`
	Lag      Quantiles `json:"lag_us"`
	RSSBytes int64     `json:"rss_bytes"`
	// Before is the offset of its clock from the first simulator's before the window,
	// which is used to correct all of its times; After is the offset after the window.
	// Both are 0 for simulators on the first one's node, which share its clock.
	Before Clock `json:"clock_before"`
	After  Clock `json:"clock_after"`
}

// Clock is a clock's offset ahead of another clock and the maximum error of that offset
// in either direction, in microseconds.
type Clock struct {
	AheadUS float64 `json:"ahead_us"`
	ErrorUS float64 `json:"error_us"`
}
