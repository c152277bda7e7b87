package programs

import (
	"strings"
	"testing"
	"time"
)

// A generator that ends well but reports nothing is an error without a cause.
func TestLoadWithoutReport(t *testing.T) {
	_, _, err := Load(t.Context(), "/bin/true", 0, "http://127.0.0.1:1", time.Second)
	if err == nil || !strings.Contains(err.Error(), "0 answered") || strings.Contains(err.Error(), "%!") {
		t.Errorf("error %v", err)
	}
}
