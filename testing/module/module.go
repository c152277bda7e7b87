// Package module finds this module's folder for tests, which run in their package's
// folder.
package module

import (
	"fmt"
	"os"
	"path/filepath"
)

// Root returns the folder of go.mod, at or above the working directory.
func Root() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s lies in no module", at)
		}
	}
}
