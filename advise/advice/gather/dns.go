package gather

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/internal/confile"
)

// dnsTypes are how a config dump spells the types of clusters that a proxy resolves
// by DNS.
var dnsTypes = [][]byte{[]byte(`"STRICT_DNS"`), []byte(`"LOGICAL_DNS"`)}

// DNSClusters counts the clusters that a proxy resolves itself: in the config dump of
// an Envoy, or in what a simulated sidecar was sent (package confile). It holds no
// more than a resource of either.
func DNSClusters(r io.Reader) (int, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if start, _ := in.Peek(confile.Probe()); !confile.Is(start) {
		return countIn(in, dnsTypes)
	}
	file, err := confile.NewReader(in)
	if err != nil {
		return 0, err
	}
	n := 0
	for {
		one, err := file.Next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if wire.ShortName(one.TypeURL) != "cds" {
			continue
		}
		c, err := wire.ParseCluster(one.Body)
		if err != nil {
			return n, err
		}
		if c.DNS {
			n++
		}
	}
}

// countIn counts texts in a stream. None may be part of another.
func countIn(r io.Reader, texts [][]byte) (int, error) {
	longest := 0
	for _, t := range texts {
		longest = max(longest, len(t))
	}
	n, held := 0, 0
	buffer := make([]byte, 64<<10)
	for {
		got, err := r.Read(buffer[held:])
		whole := buffer[:held+got]
		end := 0 // behind the last text found
		for _, t := range texts {
			for at := 0; ; {
				i := bytes.Index(whole[at:], t)
				if i < 0 {
					break
				}
				n++
				at += i + len(t)
				end = max(end, at)
			}
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		held = copy(buffer, whole[max(end, len(whole)-longest+1):])
	}
}
