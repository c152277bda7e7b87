package perf

import (
	"os"

	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/observe/profile/debugfile"
)

// debugDir is where distributions put debug files.
const debugDir = "/usr/lib/debug"

// name takes away the names that perf guessed, and names the frames of
// binaries without a table of their functions by what is at hand where they
// ran: Go's own table, which no Go program is without, or a debug file of the
// same build id. What files say of themselves then says where names are from.
func (r roots) name(p *profile.Profile, files map[string]profile.ELF) {
	p.Judge(files)
	for _, b := range p.Unnamed() {
		file, ok := files[b.Path]
		if !ok || b.Why != "" && b.BuildID != file.BuildID {
			continue // what ran is not at hand
		}
		places := []string{debugfile.ByID(debugDir, b.BuildID)}
		if file.Go {
			places = append(places, b.Path)
		}
		for _, root := range r {
			if r.nameBy(p, root, b, places) {
				file.Type = p.Binary(b.Path).Type
				files[b.Path] = file
				break
			}
		}
	}
}

// nameBy names a binary's frames by the first file that can.
func (r roots) nameBy(p *profile.Profile, root *os.Root, b profile.Binary, places []string) bool {
	for _, place := range places {
		if place == "" {
			continue
		}
		f, err := openIn(root, place)
		if err != nil {
			continue
		}
		symbols, err := profile.ReadSymbols(f)
		named := err == nil && symbols.BuildID == b.BuildID && p.Symbolise(b.Path, symbols) > 0
		f.Close()
		if named {
			return true
		}
	}
	return false
}
