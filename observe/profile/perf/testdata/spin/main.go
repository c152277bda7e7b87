// Command spin uses a CPU for as long as its argument says, for tests of
// profiles.
package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	length, err := time.ParseDuration(os.Args[1])
	if err != nil {
		os.Exit(2)
	}
	fmt.Println("spinning")
	spinForTheProfile(length)
}

//go:noinline
func spinForTheProfile(length time.Duration) (n int) {
	for end := time.Now().Add(length); time.Now().Before(end); {
		for i := range 100_000 {
			n += i * i
		}
	}
	return n
}
