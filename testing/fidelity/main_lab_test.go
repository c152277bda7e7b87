//go:build verify

package fidelity

import (
	"os"
	"testing"

	"github.com/meshtrial/meshtrial/testing/labtest"
)

// TestMain makes the tests share a lab.
func TestMain(m *testing.M) { os.Exit(labtest.Sharing(m).Run()) }
