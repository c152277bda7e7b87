package study

import (
	"testing"
	"time"
)

func TestBlockWords(t *testing.T) {
	for n, want := range map[int]string{0: "all 0 blocks done", 1: "the only block done", 2: "all 2 blocks done"} {
		if got := AllDone(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	if got := (Blocks{Limit: time.Minute}).LimitReached(1); got != "time limit of 1m0s after 1 block" {
		t.Error(got)
	}
}
