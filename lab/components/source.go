package components

import (
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/tools/txtar"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/trusted"
)

// sourceArchive has the files of src, the module that the lab's Go programs are built
// from. A module's folder cannot be embedded in another module, but a file beside it can.
// TestSourceArchiveIsCurrent writes it again.
//
//go:embed src.txtar
var sourceArchive []byte

// embeddedSource is the content of src, without tests.
func embeddedSource() fs.FS {
	files, err := txtar.FS(txtar.Parse(sourceArchive))
	if err != nil {
		panic(fmt.Sprintf("components: src.txtar: %v", err)) // TestSourceArchiveIsCurrent reads it
	}
	return files
}

// CacheDir returns the folder of the cache with links resolved: the given one,
// $MESHTRIAL_CACHE, or meshtrial in the user's cache folder. It rejects a folder that
// others may write to, since programs in the cache are run.
func CacheDir(given string) (string, error) {
	if given == "" {
		given = os.Getenv(cacheVariable)
	}
	if given == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", errs.WithHint(fmt.Errorf("no folder for the cache of components: %w", err), "set MESHTRIAL_CACHE")
		}
		given = filepath.Join(user, "meshtrial")
	}
	return trustedCache(given, cacheVariable)
}

// Environment variables that name caches.
const (
	cacheVariable     = "MESHTRIAL_CACHE"
	baseCacheVariable = "MESHTRIAL_BASE_CACHE"
)

// trustedCache resolves the links of a cache's path; variable is the one that names
// another cache.
func trustedCache(path, variable string) (string, error) {
	dir, err := trusted.Folder(path)
	if err != nil {
		hint := errs.Hint(err)
		if hint == "" {
			hint = "set " + variable
		} else {
			hint += "; " + variable + " names another folder"
		}
		return "", errs.WithHint(fmt.Errorf("cache of components: %w", err), "%s", hint)
	}
	return dir, nil
}
