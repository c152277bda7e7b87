//go:build verify

package xds_test

import (
	"testing"

	"github.com/meshtrial/meshtrial/drive/xds"
)

func TestRealIstiodStateOfTheWorld(t *testing.T) { realIstiod(t, xds.ModeSotW) }
