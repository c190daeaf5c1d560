# Draws prompts.svg from prompts.dat: cd figures && gnuplot prompts.gp
set encoding utf8
set minussign
set terminal svg noenhanced size 960,324 dynamic font 'sans-serif,13' name 'prompts' linewidth 1
set output 'prompts.svg'
set multiplot

reset
set encoding utf8
set minussign
set lmargin at screen 0.08125
set rmargin at screen 0.98333
set tmargin at screen 0.79012
set bmargin at screen 0.20370
set border 1 lc rgb '#c8cfd5' lw 1
set tics nomirror out scale 0.5,0.25 font ',12' tc rgb '#5b6670'
unset key
set label 'with-100-hz against without' at screen 0.00833,0.84568 left font 'sans-serif:Bold,14' tc rgb '#1c2126'
set label 'percent, by prompt; the band is the verdict’s interval, −0.0 % [−0.4, +0.4]' at screen 0.98333,0.84568 right font 'sans-serif,12' tc rgb '#5b6670'
set xrange [0.2:3.8]
set yrange [-0.4885582460908766:0.48123798513900456]
set ytics 0.2 format '%.1f'
set border 3 lc rgb '#c8cfd5' lw 1
set xtics 1 format '%g'
set object 1 rectangle from graph 0, first -0.42167574738536756 to graph 1, first 0.4143554864334955 back fc rgb '#e6eaed' fs solid noborder
set arrow from graph 0, first -0.004533851552110903 to graph 1, first -0.004533851552110903 nohead back lc rgb '#1c2126' lw 1 dt 1
set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#5b6670' lw 1 dt '-'
set label '' at screen 0.01458,0.94444 point pt 7 ps 0.7 lc rgb '#0072b2'
set label 'random' at screen 0.02917,0.94444 left font 'sans-serif,13' tc rgb '#1c2126'
set xlabel 'prompts, sorted by their ratio' tc rgb '#5b6670'
plot 'prompts.dat' index 0 using 1:2 with points pt 7 ps 0.65 lc rgb '#0072b2' title 'random'

unset multiplot
unset output
