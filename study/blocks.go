package study

import "fmt"

// AllDone says that the most blocks a study asks for are there.
func AllDone(n int) string {
	if n == 1 {
		return "the only block done"
	}
	return "all " + BlockWords(n) + " done"
}

// SearchesSure says that a study's searches need no further block.
func SearchesSure(n int) string {
	return "every search has its answer after " + BlockWords(n)
}

// TuneDone says that a tuning needs no further block.
func TuneDone(n int) string {
	return "the search and the comparison are done after " + BlockWords(n)
}

// Chooses says whether what a study measures next follows from what it has measured: it
// searches, or tunes.
func (s *Study) Chooses() bool { return len(s.Search) > 0 || s.Tune != nil }

// ChoicesDone says why such a study needs no further block.
func (s *Study) ChoicesDone(blocks int) string {
	if s.Tune != nil {
		return TuneDone(blocks)
	}
	return SearchesSure(blocks)
}

// BlockWords is a number of blocks in words.
func BlockWords(n int) string {
	if n == 1 {
		return "1 block"
	}
	return fmt.Sprintf("%d blocks", n)
}

// LimitReached says that the time for all blocks was up after so many.
func (b Blocks) LimitReached(n int) string {
	return fmt.Sprintf("time limit of %v after %s", b.Limit, BlockWords(n))
}
