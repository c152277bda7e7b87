package cli

import (
	"testing"

	"github.com/meshtrial/meshtrial/journal"
	"github.com/meshtrial/meshtrial/rights"
)

// TestJournalNamespace: rights are asked for where the journal is.
func TestJournalNamespace(t *testing.T) {
	if rights.JournalNamespace != journal.Namespace {
		t.Errorf("%s and %s", rights.JournalNamespace, journal.Namespace)
	}
}
