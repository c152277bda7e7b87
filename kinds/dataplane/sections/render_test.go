package sections

import "github.com/meshtrial/meshtrial/testing/reporttest"

// Reports of this kind, and their answers.
var (
	render    = reporttest.Of{Kind: Kind()}.Render
	answersOf = reporttest.Of{Kind: Kind()}.Answers
)
