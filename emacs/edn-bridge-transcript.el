;;; edn-bridge-transcript.el --- The text of a chat buffer  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A buffer in three parts: the transcript, which is read-only and grows at
;; its end; the footer, which is read-only and is not copied; the draft,
;; which the user edits.  This file knows nothing of sessions.
;;
;;   transcript ...
;;   (footer and a rule)
;;   draft ...
;;
;; What holds: the draft and its undo history survive every change above
;; it; point and every window stay where their reader put them, as text is
;; only inserted after or above them; an insertion costs what the inserted
;; text costs.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-visible)

(defvar-local edn-bridge-transcript--output nil
  "Marker at the end of the transcript, where text is added.")

(defvar-local edn-bridge-transcript--draft nil
  "Marker at the start of the draft.")

(defvar-local edn-bridge-transcript--footer nil
  "The text between transcript and draft, with its properties.")

;;;; Public API

(defun edn-bridge-transcript-setup ()
  "Lay out the current buffer, which is erased."
  (let ((inhibit-read-only t))
    (erase-buffer)
    (remove-overlays)
    (setq edn-bridge-transcript--footer
          (edn-bridge-transcript--protected-footer "\n"))
    (insert edn-bridge-transcript--footer)
    (setq edn-bridge-transcript--output (copy-marker (point-min) t)
          edn-bridge-transcript--draft (copy-marker (point-max) nil))
    (setq buffer-undo-list nil)
    (set-buffer-modified-p nil)
    (edn-bridge-transcript-set-footer nil)))

(defmacro edn-bridge-transcript-edit (&rest body)
  "Run BODY, which changes text above the draft.
Point is kept, the change is not recorded for undo, and the positions in
the draft's undo history are moved along.  New text is not protected by
this; see `edn-bridge-transcript-add'."
  (declare (indent 0) (debug t))
  (let ((before (make-symbol "before"))
        (modified (make-symbol "modified")))
    `(let ((,before (marker-position edn-bridge-transcript--draft))
           (,modified (buffer-modified-p)))
       (prog1 (save-excursion
                (let ((inhibit-read-only t)
                      (buffer-undo-list t))
                  ,@body))
         (edn-bridge-transcript--shift-undo
          (- edn-bridge-transcript--draft ,before))
         (restore-buffer-modified-p ,modified)))))

(defmacro edn-bridge-transcript-add (&rest body)
  "Run BODY with point at the end of the transcript, to insert there.
What it inserts is protected.  Return the value of BODY."
  (declare (indent 0) (debug t))
  (let ((start (make-symbol "start")))
    `(edn-bridge-transcript-edit
       (let ((,start (marker-position edn-bridge-transcript--output)))
         (goto-char ,start)
         (prog1 (progn ,@body)
           (edn-bridge-transcript-protect
            ,start edn-bridge-transcript--output))))))

(defmacro edn-bridge-transcript-at-top (&rest body)
  "Run BODY with the top of the transcript in the place of its end."
  (declare (indent 0) (debug t))
  `(let ((edn-bridge-transcript--output (copy-marker (point-min) t)))
     (unwind-protect (progn ,@body)
       (set-marker edn-bridge-transcript--output nil))))

(defconst edn-bridge-transcript--protection
  '(read-only t
    front-sticky (read-only)
    rear-nonsticky (read-only)
    field edn-bridge-transcript)
  "Properties of the text above the draft.")

(setplist 'edn-bridge-transcript--protected
          (copy-sequence edn-bridge-transcript--protection))

(defun edn-bridge-transcript-protect (start end)
  "Make the text between START and END read-only, and all of it visible."
  (unless (edn-bridge-visible-ascii-p start end)
    (edn-bridge-visible-region start end))
  (if (text-property-not-all start end 'category nil)
      ;; There are buttons, which have a category of their own.
      (add-text-properties start end edn-bridge-transcript--protection)
    ;; One property for all of them: each piece of text with a face of its
    ;; own keeps a list, and the shorter it is the less there is to do.
    (put-text-property start end 'category
                       'edn-bridge-transcript--protected)))

(defun edn-bridge-transcript-fresh-line (&optional blank)
  "Insert what is needed for point to be at the start of a line.
With BLANK, an empty line comes before, except at the start of the buffer."
  (unless (bolp)
    (insert "\n"))
  (when (and blank
             (not (bobp))
             (not (and (eq (char-before) ?\n)
                       (or (eq (char-before (1- (point))) ?\n)
                           (= (1- (point)) (point-min))))))
    (insert "\n")))

(defun edn-bridge-transcript-clear ()
  "Delete the transcript.  The draft stays."
  (edn-bridge-transcript-edit
    (remove-overlays (point-min) edn-bridge-transcript--output)
    (delete-region (point-min) edn-bridge-transcript--output)))

(defun edn-bridge-transcript-end ()
  "Return the position of the end of the transcript."
  (marker-position edn-bridge-transcript--output))

(defvar-local edn-bridge-transcript-open nil
  "Non-nil while the last line of the transcript may go on.
An empty line is between it and the footer then.")

(defun edn-bridge-transcript-set-footer (lines)
  "Show LINES, a list of strings, between the transcript and the draft.
A rule comes after them."
  (let ((text (mapconcat (lambda (line)
                           (concat (edn-bridge-visible-label line) "\n"))
                         lines "")))
    (add-face-text-property 0 (length text) 'edn-bridge-transcript-footer
                            t text)
    (edn-bridge-transcript--replace-footer
     (edn-bridge-transcript--protected-footer
      ;; The transcript's last line may not be complete.
      (concat (if edn-bridge-transcript-open "\n\n" "\n") text
              (if (display-graphic-p)
                  (propertize "\n" 'face 'edn-bridge-transcript-rule)
                ;; Shorter than the narrowest window.
                (concat (propertize (make-string 30 ?─) 'face
                                    'edn-bridge-transcript-footer)
                        "\n")))))))

(defun edn-bridge-transcript--protected-footer (text)
  "Return TEXT, which ends with a newline, read-only and left out of copies.
What is copied has the newline."
  (add-text-properties 0 (length text)
                       '(read-only t
                         front-sticky (read-only)
                         rear-nonsticky t
                         field edn-bridge-transcript)
                       text)
  (put-text-property 0 (1- (length text)) 'edn-bridge-visible-break t text)
  text)

(defun edn-bridge-transcript--replace-footer (new)
  "Put NEW in the place of the footer, as far as they differ.
Both end with a newline, which stays: points at the start of the draft do."
  (let* ((old edn-bridge-transcript--footer)
         (size (min (length old) (length new)))
         (same (compare-strings old nil nil new nil nil))
         (head (if (eq same t) size (min (1- (abs same)) (1- size))))
         (tail 1))
    (unless (and (eq same t) (equal-including-properties old new))
      (when (eq same t)
        (setq head 0))
      (while (and (< tail (- size head))
                  (eq (aref old (- (length old) tail 1))
                      (aref new (- (length new) tail 1))))
        (setq tail (1+ tail)))
      (when (eq same t)
        (setq tail 1))
      (setq edn-bridge-transcript--footer new)
      (edn-bridge-transcript-edit
        (let ((start (marker-position edn-bridge-transcript--output))
              (end (marker-position edn-bridge-transcript--draft)))
          (goto-char (+ start head))
          (delete-region (point) (- end tail))
          (insert (substring new head (- (length new) tail)))
          (set-marker edn-bridge-transcript--output start)
          ;; What stays of the text may be another line's now, or the rule.
          (edn-bridge-transcript--copy-properties new start))))))

(defun edn-bridge-transcript--copy-properties (text start)
  "Give the text at START, which is that of TEXT, the properties of TEXT."
  (let ((place 0))
    (while (< place (length text))
      (let ((next (next-property-change place text (length text))))
        (set-text-properties (+ start place) (+ start next)
                             (text-properties-at place text))
        (setq place next)))))

(defun edn-bridge-transcript-footer ()
  "Return what stands between the transcript and the draft."
  (buffer-substring-no-properties edn-bridge-transcript--output
                                  edn-bridge-transcript--draft))

(defun edn-bridge-transcript-fill-windows (&optional window)
  "Have no window at the draft be empty at its end while there is text above.
A window that was smaller, or text that got shorter, can leave that.  WINDOW,
where it is not nil, is one that shows a transcript; Emacs may tell of it
when another buffer is current."
  (if (windowp window)
      (with-current-buffer (window-buffer window)
        (edn-bridge-transcript--fill-windows))
    (edn-bridge-transcript--fill-windows)))

(defun edn-bridge-transcript--fill-windows ()
  "Fill the windows that show this buffer, as far as they are at the draft."
  (dolist (window (and edn-bridge-transcript--draft
                       (get-buffer-window-list nil nil t)))
    (when (and (>= (window-point window) edn-bridge-transcript--draft)
               (> (window-start window) (point-min)))
      (let ((start (window-start window))
            (top (save-excursion
                   (goto-char (point-max))
                   (vertical-motion (- 1 (window-body-height window)) window)
                   (point))))
        (when (< top start)
          (set-window-start window top t))))))

(defun edn-bridge-transcript-find (property value start end)
  "Return the first place from START to END where PROPERTY is `equal' to VALUE.
Return nil where there is none."
  (let ((place (text-property-not-all start end property nil)))
    (while (and place
                (not (equal value (get-text-property place property))))
      (setq place (next-single-property-change place property nil end)
            place (and (< place end)
                       (text-property-not-all place end property nil))))
    place))

(defun edn-bridge-transcript-draft ()
  "Return the text of the draft."
  (buffer-substring-no-properties edn-bridge-transcript--draft (point-max)))

(defun edn-bridge-transcript-draft-start ()
  "Return the position of the start of the draft."
  (marker-position edn-bridge-transcript--draft))

(defun edn-bridge-transcript-in-draft-p ()
  "Return non-nil if point is in the draft."
  (>= (point) edn-bridge-transcript--draft))

(defun edn-bridge-transcript-go-to-draft ()
  "Move point to the draft's end, here and in windows, where it is above it."
  (dolist (window (get-buffer-window-list nil nil t))
    (when (< (window-point window) edn-bridge-transcript--draft)
      (set-window-point window (point-max))))
  (unless (edn-bridge-transcript-in-draft-p)
    (goto-char (point-max))))

(defun edn-bridge-transcript-set-draft (text)
  "Make TEXT the draft, with point after it."
  (goto-char edn-bridge-transcript--draft)
  (delete-region (point) (point-max))
  (insert text))

(defun edn-bridge-transcript-reset-draft ()
  "Empty the draft and its undo history."
  (delete-region edn-bridge-transcript--draft (point-max))
  (setq buffer-undo-list nil))

(defun edn-bridge-transcript-visit (name &optional line column)
  "Visit the file NAME at LINE and COLUMN, counted from 1, in another window.
NAME is what a transcript says, relative to the folder of its chat.  It is
of the chat's own host: whoever wrote it must not choose where Emacs
connects to."
  (let ((file (edn-bridge-transcript-file name)))
    (unless (file-exists-p file)
      (user-error "There is no file %s" file))
    (find-file-other-window file)
    (when line
      (goto-char (point-min))
      (forward-line (1- line))
      (when column
        (move-to-column (1- column))))))

(defun edn-bridge-transcript-file (name)
  "Return the full name of the file NAME, which is on the chat's host.
Whether a name leads elsewhere is asked of nothing but the name."
  (let* ((non-essential t)
         (host (file-remote-p default-directory))
         (name (replace-regexp-in-string "\\`//+" "/" name))
         ;; Another host may hide behind "~" or "..".
         (file (cond
                ((file-remote-p name)
                 (unless (equal (file-remote-p name) host)
                   (edn-bridge-transcript--refuse name))
                 name)
                ((and host (file-name-absolute-p name))
                 (concat host name))
                (t
                 name)))
         (file (expand-file-name file)))
    (unless (equal (file-remote-p file) host)
      (edn-bridge-transcript--refuse name))
    file))

;;;; What follows the width of the window

(defun edn-bridge-transcript-width ()
  "Return how many columns a line has in each window that shows this buffer.
That is as many as in the narrowest.  Return nil where there is none."
  (let ((windows (get-buffer-window-list nil nil t)))
    (and windows
         ;; This selects the window for a moment, and with that moves point.
         (save-excursion
           (apply #'min (mapcar #'window-max-chars-per-line windows))))))

(defvar edn-bridge-transcript-fitted nil
  "What is written for the width of its window: an alist.
A key is a property that such a text has, with a value of its own; the
function is called with the start of the text and that value when the width
changed.  It may write the text again, but no text before it.")

(defvar-local edn-bridge-transcript--fitting nil
  "Marker below what is not fitted to the window yet, or nil.")

(defconst edn-bridge-transcript--fit-seconds 0.03
  "How long texts are fitted to the window at a time.")

(defun edn-bridge-transcript-follow-width ()
  "Have what is written for the width of the window follow it."
  (add-hook 'window-size-change-functions
            #'edn-bridge-transcript--on-resize nil t))

(defun edn-bridge-transcript--on-resize (window)
  "Have the chat in WINDOW fitted to its width.
What is seen is fitted at once, the rest while Emacs is idle."
  (when (windowp window)
    (let ((buffer (window-buffer window)))
      (with-current-buffer buffer
        (edn-bridge-transcript--fit
         (min (edn-bridge-transcript-end)
              (+ (window-point window)
                 (* 2 (window-total-height window)
                    (window-total-width window))))
         (window-start window)
         nil)
        (unless edn-bridge-transcript--fitting
          (run-with-idle-timer 0.1 nil #'edn-bridge-transcript--fit-rest
                               buffer))
        (setq edn-bridge-transcript--fitting
              (copy-marker (edn-bridge-transcript-end)))))))

(defun edn-bridge-transcript--fit-rest (buffer)
  "Fit what is not fitted yet in the chat BUFFER, and go on later."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (when-let ((from edn-bridge-transcript--fitting))
        (let ((place (edn-bridge-transcript--fit
                      (marker-position from) (point-min)
                      (+ (float-time) edn-bridge-transcript--fit-seconds))))
          (if (= place (point-min))
              (progn
                (set-marker from nil)
                (setq edn-bridge-transcript--fitting nil))
            (set-marker from place)
            (run-at-time 0.05 nil #'edn-bridge-transcript--fit-rest
                         buffer)))))))

(defun edn-bridge-transcript--fit (place end deadline)
  "Fit what is between END and PLACE to the window, until DEADLINE or nil.
Return the place from which on that is done."
  ;; The nearest change of each property, so that none is looked for twice.
  (let ((nearest (mapcar (lambda (fitted)
                           (cons (edn-bridge-transcript--change place
                                                                (car fitted))
                                 fitted))
                         edn-bridge-transcript-fitted)))
    (while (and (> place end)
                (or (null deadline) (< (float-time) deadline)))
      (setq place (apply #'max (point-min) (mapcar #'car nearest)))
      (dolist (entry nearest)
        (when (= (car entry) place)
          (let ((value (get-text-property place (cadr entry))))
            (setcar entry (edn-bridge-transcript--change place (cadr entry)))
            (when value
              (funcall (cddr entry) place value))))))
    (max place (point-min))))

(defun edn-bridge-transcript--change (place property)
  "Return the last change of PROPERTY before PLACE, or the buffer's start."
  (previous-single-property-change place property nil (point-min)))

;;;; Private parts

(defun edn-bridge-transcript--refuse (name)
  "Refuse to visit the file NAME."
  (user-error "The file %s is not on this chat's host" name))

(defun edn-bridge-transcript--shift-undo (shift)
  "Move the positions in the undo history by SHIFT characters."
  (unless (or (zerop shift) (eq buffer-undo-list t))
    (let ((cell buffer-undo-list))
      (while cell
        (let ((entry (car cell)))
          (cond
           ((integerp entry)
            (setcar cell (+ entry shift)))
           ((not (consp entry)))
           ((and (integerp (car entry)) (integerp (cdr entry)))
            (setcar entry (+ (car entry) shift))
            (setcdr entry (+ (cdr entry) shift)))
           ((and (stringp (car entry)) (integerp (cdr entry)))
            (setcdr entry (if (< (cdr entry) 0)
                              (- (cdr entry) shift)
                            (+ (cdr entry) shift))))
           ((null (car entry))
            ;; (nil PROPERTY VALUE START . END)
            (let ((range (nthcdr 3 entry)))
              (setcar range (+ (car range) shift))
              (setcdr range (+ (cdr range) shift))))))
        (setq cell (cdr cell))))))

(provide 'edn-bridge-transcript)

;;; edn-bridge-transcript.el ends here
