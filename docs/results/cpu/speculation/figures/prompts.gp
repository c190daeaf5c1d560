# Draws prompts.svg from prompts.dat: cd figures && gnuplot prompts.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,1104 dynamic font 'sans-serif,13' name 'prompts' linewidth 1
set output 'prompts.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.93841
set bmargin at screen 0.76630
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'chain-16 against plain' at screen 0.00833,0.95471 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent, by prompt; the band is the verdict’s interval, −59.9 % [−60.8, −59.0]' at screen 0.98333,0.95471 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0.2:32.8]
set yrange [-86.20218365925331:6.385346937722467]
set ytics 20 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set object 1 rectangle from graph 0, first -60.785559442196934 to graph 1, first -58.98099877081938 back fc rgb '#e6eaed' fs solid noborder
set arrow from graph 0, first -59.893427154116566 to graph 1, first -59.893427154116566 nohead back lc rgb '#1c2126' lw 1 dt 1
set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#5b6670' lw 1 dt '-'
set label '' at screen 0.01458,0.98370 point pt 7 ps 0.7 lc rgb '#0072b2'
set label 'code' at screen 0.02917,0.98370 left font 'sans-serif,13' tc rgb '#1c2126'
set label '' at screen 0.23958,0.98370 point pt 5 ps 0.7 lc rgb '#d55e00'
set label 'prose' at screen 0.25417,0.98370 left font 'sans-serif,13' tc rgb '#1c2126'
plot 'prompts.dat' index 0 using 1:2 with points pt 7 ps 0.65 lc rgb '#0072b2' title 'code', \
  'prompts.dat' index 1 using 1:2 with points pt 5 ps 0.65 lc rgb '#d55e00' title 'prose'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.70290
set bmargin at screen 0.53080
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'tree-8 against plain' at screen 0.00833,0.71920 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent, by prompt; the band is the verdict’s interval, −32.6 % [−35.5, −29.6]' at screen 0.98333,0.71920 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0.2:32.8]
set yrange [-69.78683969895447:33.168073945812495]
set ytics 20 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set object 1 rectangle from graph 0, first -35.52010824086478 to graph 1, first -29.634950618771803 back fc rgb '#e6eaed' fs solid noborder
set arrow from graph 0, first -32.641772828200125 to graph 1, first -32.641772828200125 nohead back lc rgb '#1c2126' lw 1 dt 1
set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#5b6670' lw 1 dt '-'
plot 'prompts.dat' index 2 using 1:2 with points pt 7 ps 0.65 lc rgb '#0072b2' title 'code', \
  'prompts.dat' index 3 using 1:2 with points pt 5 ps 0.65 lc rgb '#d55e00' title 'prose'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.46739
set bmargin at screen 0.29529
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'tree-16 against plain' at screen 0.00833,0.48370 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent, by prompt; the band is the verdict’s interval, −48.3 % [−49.5, −47.0]' at screen 0.98333,0.48370 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0.2:32.8]
set yrange [-79.88317829820822:34.479200931950295]
set ytics 20 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set object 1 rectangle from graph 0, first -49.46335567481254 to graph 1, first -47.02805294781315 back fc rgb '#e6eaed' fs solid noborder
set arrow from graph 0, first -48.26003046590549 to graph 1, first -48.26003046590549 nohead back lc rgb '#1c2126' lw 1 dt 1
set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#5b6670' lw 1 dt '-'
plot 'prompts.dat' index 4 using 1:2 with points pt 7 ps 0.65 lc rgb '#0072b2' title 'code', \
  'prompts.dat' index 5 using 1:2 with points pt 5 ps 0.65 lc rgb '#d55e00' title 'prose'

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.23188
set bmargin at screen 0.05978
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'tree-32 against plain' at screen 0.00833,0.24819 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent, by prompt; the band is the verdict’s interval, −66.3 % [−67.1, −65.5]' at screen 0.98333,0.24819 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0.2:32.8]
set yrange [-89.13883526158352:6.602876686043224]
set ytics 20 format '%.0f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics autofreq format '%g'
set object 1 rectangle from graph 0, first -67.140664511085 to graph 1, first -65.52436700119016 back fc rgb '#e6eaed' fs solid noborder
set arrow from graph 0, first -66.34221648859507 to graph 1, first -66.34221648859507 nohead back lc rgb '#1c2126' lw 1 dt 1
set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#5b6670' lw 1 dt '-'
set xlabel 'prompts, sorted by their ratio' tc rgb '#5b6670'
plot 'prompts.dat' index 6 using 1:2 with points pt 7 ps 0.65 lc rgb '#0072b2' title 'code', \
  'prompts.dat' index 7 using 1:2 with points pt 5 ps 0.65 lc rgb '#d55e00' title 'prose'

unset multiplot
unset output
