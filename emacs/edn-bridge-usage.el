;;; edn-bridge-usage.el --- Tokens and cost over time  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; What the sessions on disk have used, by day, project, model or session:
;; numbers with a bar each, and an image of them where Emacs shows images.
;; The numbers are those of `edn-bridge usage'.

;;; Code:

(require 'cl-lib)
(require 'json)
(require 'subr-x)
(require 'svg)
(require 'edn-bridge-program)
(require 'edn-bridge-visible)
(require 'edn-bridge-view)

(defconst edn-bridge-usage--kinds
  '((day . "Day") (project . "Project") (model . "Model") (session . "Session"))
  "What the figures can be summed by, each with its heading.")

(defconst edn-bridge-usage--rows 60
  "The most rows of an image; the text has all.")

(defconst edn-bridge-usage--bar 30
  "The columns of the longest bar in the text.")

(defvar-local edn-bridge-usage--by 'day
  "What the figures of this buffer are summed by.")

(defvar-local edn-bridge-usage--process nil
  "The process that reads the figures of this buffer.")

(edn-bridge-define-view-mode edn-bridge-usage-mode special-mode "Usage"
  "Tokens and cost over time, from the sessions on disk."
  :keys (("d" edn-bridge-usage-by-day "by day")
         ("P" edn-bridge-usage-by-project "by project")
         ("m" edn-bridge-usage-by-model "by model")
         ("s" edn-bridge-usage-by-session "by session"))
  (setq-local truncate-lines t
              revert-buffer-function #'edn-bridge-usage--read))

;;;###autoload
(defun edn-bridge-usage (&optional by)
  "Show the tokens and the cost of the sessions on disk.
BY is `day', `project', `model' or `session'; with a prefix argument it is
asked for."
  (interactive
   (list (and current-prefix-arg
              (intern (completing-read
                       "By: " (mapcar #'car edn-bridge-usage--kinds) nil t)))))
  (let ((directory default-directory)
        (buffer (get-buffer-create "*edn-bridge usage*")))
    (with-current-buffer buffer
      (unless (derived-mode-p 'edn-bridge-usage-mode)
        (edn-bridge-usage-mode))
      (setq default-directory directory)
      (setq edn-bridge-usage--by (or by edn-bridge-usage--by))
      (edn-bridge-usage--read))
    (pop-to-buffer buffer)))

(defun edn-bridge-usage-by-day ()
  "Show what each day took."
  (interactive nil edn-bridge-usage-mode)
  (edn-bridge-usage 'day))

(defun edn-bridge-usage-by-project ()
  "Show what each project took."
  (interactive nil edn-bridge-usage-mode)
  (edn-bridge-usage 'project))

(defun edn-bridge-usage-by-model ()
  "Show what each model took."
  (interactive nil edn-bridge-usage-mode)
  (edn-bridge-usage 'model))

(defun edn-bridge-usage-by-session ()
  "Show what each session took."
  (interactive nil edn-bridge-usage-mode)
  (edn-bridge-usage 'session))

;;;; Reading

(defun edn-bridge-usage--read (&rest _)
  "Read the figures of this buffer, and show them once they are there."
  (when (process-live-p edn-bridge-usage--process)
    (delete-process edn-bridge-usage--process))
  (if (not (edn-bridge-program-find))
      (edn-bridge-usage--show-text
       (format "The program %s was not found; M-x edn-bridge-doctor says more.\n"
               edn-bridge-program))
    (let ((buffer (current-buffer))
          (errors (generate-new-buffer " *edn-bridge usage errors*"))
          (by edn-bridge-usage--by)
          process pipe)
      (edn-bridge-usage--show-text "Reading the sessions …\n")
      ;; What it wrote to its standard error may come after its end.
      (let ((sentinel (lambda (&rest _)
                        (unless (or (null process) (process-live-p process)
                                    (and pipe (process-live-p pipe)))
                          (edn-bridge-usage--ended process errors buffer by)))))
        (setq process
              (make-process
               :name "edn-bridge-usage"
               :buffer (generate-new-buffer " *edn-bridge usage output*")
               :command (append (apply #'edn-bridge-program-command
                                       edn-bridge-program-args)
                                (list "usage" "--json" "--by" (symbol-name by)))
               :connection-type 'pipe :noquery t :file-handler t
               :stderr errors
               :sentinel sentinel)
              pipe (get-buffer-process errors)
              edn-bridge-usage--process process)
        (when pipe
          (set-process-query-on-exit-flag pipe nil)
          (set-process-sentinel pipe sentinel))
        ;; A remote one may have ended while it was started.
        (funcall sentinel)))))

(defun edn-bridge-usage--ended (process errors buffer by)
  "Show in BUFFER the figures by BY that PROCESS has written.
What it has written to its standard error is in the buffer ERRORS, and is
shown below them."
  (let ((output (process-buffer process)))
    (unwind-protect
        (when (and (buffer-live-p output) (buffer-live-p buffer)
                   (eq process (buffer-local-value
                                'edn-bridge-usage--process buffer)))
          (let ((rows (or (not (eql 0 (process-exit-status process)))
                          (with-current-buffer output
                            (edn-bridge-usage--parse by))))
                (told (edn-bridge-usage--rest errors)))
            (with-current-buffer buffer
              (if (listp rows)
                  (edn-bridge-usage--show rows by)
                (edn-bridge-usage--show-text
                 "The figures cannot be read; M-x edn-bridge-doctor says more.\n"))
              (unless (string-empty-p told)
                (let ((inhibit-read-only t))
                  (save-excursion
                    (goto-char (point-max))
                    (insert "\n" told "\n")))))))
      (mapc (lambda (used)
              (when (buffer-live-p used)
                (kill-buffer used)))
            (list output errors)))))

(defun edn-bridge-usage--rest (errors)
  "Return what a process that has ended wrote to the buffer ERRORS."
  (if (not (buffer-live-p errors))
      ""
    (with-current-buffer errors
      (mapconcat #'edn-bridge-visible-label
                 (split-string (string-trim (buffer-string)) "\n") "\n"))))

(defun edn-bridge-usage--parse (by)
  "Return the figures by BY in this buffer: lists of a label and numbers.
Return t if there are none that can be read.
The numbers are calls, input, cached, output and cost."
  (condition-case nil
      (let ((json-object-type 'alist) (json-key-type 'symbol)
            (json-array-type 'list))
        (goto-char (point-min))
        (mapcar
         (lambda (row)
           (let ((usage (alist-get 'usage row)))
             (list (alist-get by row)
                   (alist-get 'calls row)
                   (+ (alist-get 'input usage) (alist-get 'cache-write usage))
                   (alist-get 'cache-read usage)
                   (alist-get 'output usage)
                   (alist-get 'cost usage))))
         (json-read)))
    (error t)))

;;;; Showing

(defun edn-bridge-usage--show-text (text)
  "Make TEXT the whole content of this buffer."
  (let ((inhibit-read-only t))
    (erase-buffer)
    (insert text)
    (goto-char (point-min))))

(defun edn-bridge-usage--amount (row priced)
  "Return what is measured of ROW: its cost if PRICED, or its tokens."
  (pcase-let ((`(,_ ,_ ,input ,cached ,output ,cost) row))
    (if priced cost (+ input cached output))))

(defun edn-bridge-usage--priced-p (rows)
  "Return non-nil if any of ROWS has a cost."
  (cl-some (lambda (row) (> (nth 5 row) 0)) rows))

(defun edn-bridge-usage--bar (amount most)
  "Return a bar for AMOUNT, where MOST has the longest."
  (let ((eighths (if (> most 0)
                     (round (* 8.0 edn-bridge-usage--bar (/ (float amount) most)))
                   0)))
    (when (> amount 0)
      (setq eighths (max 1 eighths)))
    (if (char-displayable-p ?█)
        (concat (make-string (/ eighths 8) ?█)
                (let ((rest (% eighths 8)))
                  (if (> rest 0) (string (aref " ▏▎▍▌▋▊▉" rest)) "")))
      (make-string (/ (+ eighths 7) 8) ?#))))

(defun edn-bridge-usage--show (rows by)
  "Show ROWS, the figures by BY."
  (if (null rows)
      (edn-bridge-usage--show-text "No model was called yet.\n")
    (edn-bridge-usage--show-text "")
    (let ((inhibit-read-only t))
      (when (and (display-graphic-p) (image-type-available-p 'svg))
        (insert-image (svg-image (edn-bridge-usage--svg rows))
                      "(the numbers below, as bars)")
        (insert "\n\n"))
      (insert (edn-bridge-usage--table rows by))
      (goto-char (point-min)))))

(defun edn-bridge-usage--table (rows by)
  "Return ROWS, the figures by BY, as lines with a bar each."
  (let* ((label (lambda (row) (edn-bridge-visible-label (format "%s" (car row)))))
         (wide (apply #'max 7 (mapcar (lambda (row)
                                        (string-width (funcall label row)))
                                      rows)))
         (priced (edn-bridge-usage--priced-p rows))
         (most (apply #'max 0 (mapcar (lambda (row)
                                        (edn-bridge-usage--amount row priced))
                                      rows)))
         (line (lambda (label calls input cached output cost bar)
                 (concat label
                         (make-string (max 0 (- wide (string-width label))) ?\s)
                         (format "  %7s %10s %10s %9s %10s  %s"
                                 calls input cached output cost bar)))))
    (concat
     (propertize
      (funcall line (alist-get by edn-bridge-usage--kinds)
               "calls" "input" "cached" "output" "cost $"
               (if priced "cost" "tokens"))
      'face 'edn-bridge-title)
     "\n"
     (mapconcat
      (lambda (row)
        (pcase-let ((`(,_ ,calls ,input ,cached ,output ,cost) row))
          (concat
           (funcall line (funcall label row) calls input cached output
                    (if (> cost 0) (format "%.4f" cost) "-")
                    (propertize (edn-bridge-usage--bar
                                 (edn-bridge-usage--amount row priced) most)
                                'face 'edn-bridge-success))
           "\n")))
      rows ""))))

(defun edn-bridge-usage--color (face)
  "Return the colour of FACE, or that of text."
  (let ((color (face-foreground face nil t)))
    (if (and (stringp color) (color-defined-p color))
        (apply #'format "#%02x%02x%02x"
               (mapcar (lambda (part) (/ part 257)) (color-values color)))
      "gray")))

(defun edn-bridge-usage--svg (rows)
  "Return an image of ROWS, in the colours of this Emacs."
  (let* ((drawn (last rows edn-bridge-usage--rows))
         (priced (edn-bridge-usage--priced-p rows))
         (most (apply #'max 0 (mapcar (lambda (row)
                                        (edn-bridge-usage--amount row priced))
                                      drawn)))
         (row-height 20)
         (svg (svg-create 720 (+ 8 (* row-height (length drawn)))))
         (ink (edn-bridge-usage--color 'default))
         (fill (edn-bridge-usage--color 'edn-bridge-success))
         (top 4))
    (dolist (row drawn)
      (let* ((amount (edn-bridge-usage--amount row priced))
             (width (if (> most 0) (* 400.0 (/ (float amount) most)) 0))
             (label (edn-bridge-visible-label (format "%s" (car row))))
             (over (- (length label) 26)))
        (svg-text svg (if (> over 0) (concat "…" (substring label (1+ over))) label)
                  :x 182 :y (+ top 14) :text-anchor "end" :fill ink
                  :font-size 12 :font-family "sans-serif")
        (svg-rectangle svg 190 (+ top 3) width 14 :fill fill)
        (svg-text svg (if priced
                          (format "$%.4f" amount)
                        (number-to-string amount))
                  :x (+ 196 width) :y (+ top 14) :fill ink
                  :font-size 12 :font-family "sans-serif"))
      (setq top (+ top row-height)))
    svg))

(provide 'edn-bridge-usage)

;;; edn-bridge-usage.el ends here
