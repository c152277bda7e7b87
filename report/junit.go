package report

import (
	"encoding/xml"
	"fmt"
	"io"

	"github.com/meshtrial/meshtrial/record"
)

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr,omitempty"`
	Stamp    string      `xml:"timestamp,attr,omitempty"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Error   *junitMessage `xml:"error,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
}

// renderJUnit writes a test suite for build servers: a case that fails if no
// trial is valid, and a case for each assertion.
func renderJUnit(w io.Writer, k Kind, f record.Findings, _ Options) error {
	suite := junitSuite{Name: clean(f.Study), Stamp: clean(f.Started)}
	valid := junitCase{Name: "trials are valid", Class: suite.Name, Out: clean(validityWords(f.Validity))}
	if f.Validity.Valid == 0 {
		valid.Failure = &junitMessage{"no valid trial"}
	}
	suite.Cases = append(suite.Cases, valid)
	for _, a := range f.Assertions {
		c := junitCase{Name: clean(a.Expr), Class: suite.Name, Out: clean(a.Detail)}
		if !a.Passed {
			c.Failure = &junitMessage{clean(a.Detail)}
		}
		suite.Cases = append(suite.Cases, c)
	}
	for _, c := range f.Cells {
		if k.Cases == nil {
			break
		}
		for _, one := range k.Cases(f.Study, c) {
			suite.Cases = append(suite.Cases, one.junit())
		}
	}
	for _, c := range suite.Cases {
		suite.Tests++
		if c.Failure != nil {
			suite.Failures++
		}
		if c.Error != nil {
			suite.Errors++
		}
	}
	out, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return fmt.Errorf("findings as JUnit: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, out)
	return err
}

// junit converts a case to the format of build servers.
func (c Case) junit() junitCase {
	out := junitCase{Name: clean(c.Name), Class: clean(c.Class), Out: clean(c.Out)}
	if c.Failure != "" {
		out.Failure = &junitMessage{clean(c.Failure)}
	}
	if c.Error != "" {
		out.Error = &junitMessage{clean(c.Error)}
	}
	return out
}
