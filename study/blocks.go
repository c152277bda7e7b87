package study

import "fmt"

// AllDone returns the message that the study's maximum number of blocks has run.
func AllDone(n int) string {
	if n == 1 {
		return "the only block done"
	}
	return "all " + BlockWords(n) + " done"
}

// SearchesSure returns the message that the study's searches need no further block.
func SearchesSure(n int) string {
	return "every search has its answer after " + BlockWords(n)
}

// TuneDone returns the message that a tuning needs no further block.
func TuneDone(n int) string {
	return "the search and the comparison are done after " + BlockWords(n)
}

// Chooses reports whether earlier results decide what the study measures next, as in a search or a
// tuning.
func (s *Study) Chooses() bool { return len(s.Search) > 0 || s.Tune != nil }

// ChoicesDone explains why such a study needs no further block.
func (s *Study) ChoicesDone(blocks int) string {
	if s.Tune != nil {
		return TuneDone(blocks)
	}
	return SearchesSure(blocks)
}

// BlockWords spells out a number of blocks.
func BlockWords(n int) string {
	if n == 1 {
		return "1 block"
	}
	return fmt.Sprintf("%d blocks", n)
}

// LimitReached returns the message that the time limit for all blocks expired after n blocks.
func (b Blocks) LimitReached(n int) string {
	return fmt.Sprintf("time limit of %v after %s", b.Limit, BlockWords(n))
}
