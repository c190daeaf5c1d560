# Draws prompts.svg from prompts.dat: cd figures && gnuplot prompts.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,844 dynamic font 'sans-serif,13' name 'prompts' linewidth 1
set output 'prompts.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.91943
set bmargin at screen 0.69431
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label '7-bits against exact' at screen 0.00833,0.94076 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent, by prompt; the band is the verdict’s interval, −2.2 % [−4.9, +0.6]' at screen 0.98333,0.94076 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0.2:24.8]
set yrange [-12.96025101312393:6.2373230856268345]
set ytics 2 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set object 1 rectangle from graph 0, first -4.89240766586965 to graph 1, first 0.5642875164831112 back fc rgb '#e6eaed' fs solid noborder
set arrow from graph 0, first -2.202110142958863 to graph 1, first -2.202110142958863 nohead back lc rgb '#1c2126' lw 1 dt 1
set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#5b6670' lw 1 dt '-'
set label '' at screen 0.01458,0.97867 point pt 7 ps 0.7 lc rgb '#0072b2'
set label 'code' at screen 0.02917,0.97867 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.23958,0.97867 point pt 5 ps 0.7 lc rgb '#d55e00'
set label 'prose' at screen 0.25417,0.97867 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'prompts.dat' index 0 using 1:2 with points pt 7 ps 0.65 lc rgb '#0072b2' title 'code', \
  'prompts.dat' index 1 using 1:2 with points pt 5 ps 0.65 lc rgb '#d55e00' title 'prose'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.61137
set bmargin at screen 0.38626
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label '6-bits against exact' at screen 0.00833,0.63270 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent, by prompt; the band is the verdict’s interval, −2.8 % [−4.4, −1.2]' at screen 0.98333,0.63270 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0.2:24.8]
set yrange [-12.436491068791568:6.53310298899963]
set ytics 2 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set object 1 rectangle from graph 0, first -4.440896538418142 to graph 1, first -1.1817306323431305 back fc rgb '#e6eaed' fs solid noborder
set arrow from graph 0, first -2.824976324168626 to graph 1, first -2.824976324168626 nohead back lc rgb '#1c2126' lw 1 dt 1
set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#5b6670' lw 1 dt '-'
plot 'prompts.dat' index 2 using 1:2 with points pt 7 ps 0.65 lc rgb '#0072b2' title 'code', \
  'prompts.dat' index 3 using 1:2 with points pt 5 ps 0.65 lc rgb '#d55e00' title 'prose'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.30332
set bmargin at screen 0.07820
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label '5-bits against exact' at screen 0.00833,0.32464 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent, by prompt; the band is the verdict’s interval, −3 % [−6, +1]' at screen 0.98333,0.32464 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0.2:24.8]
set yrange [-14.518897178866164:4.541193758600272]
set ytics 2 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set object 1 rectangle from graph 0, first -6.332478616371915 to graph 1, first 1.0353241014237442 back fc rgb '#e6eaed' fs solid noborder
set arrow from graph 0, first -2.7183039787447862 to graph 1, first -2.7183039787447862 nohead back lc rgb '#1c2126' lw 1 dt 1
set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#5b6670' lw 1 dt '-'
set xlabel 'prompts, sorted by their ratio' tc rgb '#5b6670'
plot 'prompts.dat' index 4 using 1:2 with points pt 7 ps 0.65 lc rgb '#0072b2' title 'code', \
  'prompts.dat' index 5 using 1:2 with points pt 5 ps 0.65 lc rgb '#d55e00' title 'prose'

unset multiplot
unset output
