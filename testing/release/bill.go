package main

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBill writes the bill of materials of a program: the modules that the Go tool
// recorded in it.
func writeBill(to string, info *debug.BuildInfo, at time.Time) error {
	main := module(info.Main, cdx.ComponentTypeApplication)
	parts := []cdx.Component{module(debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}, cdx.ComponentTypeLibrary)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, module(*m, cdx.ComponentTypeLibrary))
	}
	bill := cdx.NewBOM()
	bill.Metadata = &cdx.Metadata{Timestamp: at.Format(time.RFC3339), Component: &main}
	bill.Components = &parts
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bill); err != nil {
		return err
	}
	return f.Close()
}

// module describes a Go module. Its digest is the one in go.sum, of the list of its
// files' digests.
func module(m debug.Module, kind cdx.ComponentType) cdx.Component {
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	out := cdx.Component{BOMRef: purl, PackageURL: purl, Type: kind, Name: m.Path, Version: m.Version}
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
		out.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return out
}
