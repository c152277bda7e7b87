package study_test

import _ "github.com/meshtrial/meshtrial/kinds/resilience" // studies of which tests of this package read
