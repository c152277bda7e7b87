package profile_test

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/observe/profile"
)

// Which functions have the highest self cost, in folded stacks as written by
// perf and others?
func Example() {
	p, err := profile.ReadFolded(strings.NewReader(`envoy;main;onData;parse 30
envoy;main;onData;route 10
envoy;main;onData;encode;memcpy 60
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range p.Top(2) {
		fmt.Printf("%3d of %d in %s\n", f.Flat, p.Total(), f.Function)
	}
	// Output:
	// 60 of 100 in memcpy
	//  30 of 100 in parse
}

// What changed between two profiles, as shares of their samples?
func ExampleCompare() {
	read := func(folded string) []*profile.Profile {
		p, err := profile.ReadFolded(strings.NewReader(folded))
		if err != nil {
			fmt.Println(err)
		}
		return []*profile.Profile{p}
	}
	diff, err := profile.Compare(read("main;parse 500\nmain;copy 500\n"), read("main;parse 500\nmain;copy 1500\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range diff.Paths[:2] {
		fmt.Printf("%-10s %3.0f%% -> %.0f%%\n", path.Path, 100*path.Before, 100*path.After)
	}
	// Output:
	// main;copy   50% -> 75%
	// main;parse  50% -> 25%
}
