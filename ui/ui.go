// Package ui holds the web page of an HTML report: a TypeScript front end (web/) built into one
// file (dist/index.html) and embedded here.
//
// Data goes into the page as JSON in a script element that is never executed. The page's content
// security policy allows one script and one style, by their hashes, and forbids every connection.
// The file therefore works offline, and text in a study cannot make it contact a server. A page
// that is served ([Served]) requests the data from its own server and connects to no other.
package ui

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
)

//go:embed dist/index.html
var built []byte

// policyTag matches the page's policy, which a server sends as a header.
var policyTag = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="([^"]+)">`)

// Served returns the page without data, and the content security policy to send with it. The page
// requests its data from the server that it came from.
func Served() (page []byte, policy string) {
	at := policyTag.FindSubmatchIndex(built)
	page = slices.Concat(built[:at[0]], built[at[1]:])
	return page, string(built[at[2]:at[3]]) + "; connect-src 'self'; frame-ancestors 'none'"
}

// slot is where the page expects its data; web/index.html contains it too.
const slot = `<script type="application/json" id="meshtrial-data">null</script>`

// WritePage writes the page with data, a JSON document, embedded in it. It fails if data is not
// JSON or if w fails.
func WritePage(w io.Writer, data []byte) error {
	var safe bytes.Buffer
	if !json.Valid(data) {
		return errors.New("page data is not JSON")
	}
	// Escape <, >, & and the line separators, so that no text in the data can end the script
	// element or open another.
	json.HTMLEscape(&safe, data)
	before, after, ok := bytes.Cut(built, []byte(slot))
	if !ok {
		return fmt.Errorf("the built page has no place for data (%s); build it again with: make web", slot)
	}
	open, end := slot[:len(slot)-len("null</script>")], "</script>"
	for _, part := range [][]byte{before, []byte(open), safe.Bytes(), []byte(end), after} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
