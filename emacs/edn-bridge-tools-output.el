;;; edn-bridge-tools-output.el --- Outputs and diffs of tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; What a tool gave is shown bounded: the beginning and the end of an output,
;; the beginning of a diff.  The whole is shown in a buffer of its own, and
;; read from the bridge where that held the rest back.  A `file:line' in an
;; output can be followed.
;;
;; Knows no tool calls; their lines are in edn-bridge-tools.el.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-diff)
(require 'edn-bridge-view)

(defcustom edn-bridge-tools-output-limit 16000
  "How many characters of an output are shown at once."
  :type 'natnum
  :group 'edn-bridge)

;;;; Outputs

(defun edn-bridge-tools--insert-output (text)
  "Insert TEXT, an output, bounded, with its places to follow marked."
  (pcase-let ((`(,head . ,tail) (edn-bridge-tools--cut text)))
    (edn-bridge-tools--insert-part (if (equal text "") "(no output)" head))
    (when tail
      (insert-text-button (format "[%d characters between]"
                                  (- (length text) (length head)
                                     (length tail)))
                          'face 'edn-bridge-button 'follow-link t
                          'action (lambda (_button)
                                    (edn-bridge-tools--view text)))
      (insert "\n")
      (edn-bridge-tools--insert-part tail))))

(defun edn-bridge-tools--cut (text)
  "Return what is shown of TEXT, an output: its beginning and its end.
The end, nil where all is shown, is the longer part: there stands why a
build failed.  Both are cut where a line ends, if one does nearby."
  (if (<= (length text) edn-bridge-tools-output-limit)
      (list text)
    (let* ((first (/ edn-bridge-tools-output-limit 4))
           (last (- (length text) (- edn-bridge-tools-output-limit first)))
           (head (substring text 0 first))
           (newline (string-search "\n" text last)))
      (cons (let ((line (string-match-p "\n[^\n]*\\'" head)))
              (if line (substring head 0 (1+ line)) head))
            (substring text (if (and newline (< newline (1- (length text))))
                                (1+ newline)
                              last))))))

(defun edn-bridge-tools--insert-part (text)
  "Insert TEXT, a part of an output, with its places to follow marked."
  (let ((start (point)))
    (insert (edn-bridge-visible-break text 0))
    (unless (bolp) (insert "\n"))
    (put-text-property start (point) 'face 'edn-bridge-tools-output)
    (edn-bridge-tools--mark-places start (point))))

(defun edn-bridge-tools--view (text)
  "Show TEXT, an output, in a buffer of its own, and return that."
  (let ((directory default-directory)
        (buffer (generate-new-buffer "*edn-bridge output*")))
    (with-current-buffer buffer
      (insert (edn-bridge-visible-break text 0))
      (edn-bridge-visible-region (point-min) (point-max) 'strict)
      (goto-char (point-min))
      (setq default-directory directory)
      (edn-bridge-page-mode)
      (edn-bridge-visible-setup))
    (pop-to-buffer buffer)
    buffer))

;;;; Places in files

(defconst edn-bridge-tools--place
  "\\(?:^\\|[ \t(\"'`]\\)\\(\\(?:[./~]\\|[[:alnum:]_-]\\)[^] \t\n:()\"'`<>]*\\):\\([0-9]+\\)\\(?::\\([0-9]+\\)\\)?"
  "Matches a place in a file: its name, line and perhaps column.")

(defun edn-bridge-tools--mark-places (start end)
  "Give the places in files between START and END the face of links."
  (save-excursion
    (goto-char start)
    (let ((count 0))
      (while (and (< count 200)
                  (re-search-forward edn-bridge-tools--place end t))
        (cl-incf count)
        (add-face-text-property (match-beginning 1) (match-end 2)
                                'edn-bridge-button)))))

(defun edn-bridge-tools-follow ()
  "Visit the place in a file that the text at point names."
  (interactive nil edn-bridge-chat-mode)
  (let ((point (point))
        (place nil))
    (save-excursion
      (beginning-of-line)
      (while (and (not place)
                  (re-search-forward edn-bridge-tools--place
                                     (line-end-position) t))
        (when (<= (match-beginning 1) point (match-end 0))
          (setq place (cons (match-string-no-properties 1)
                            (mapcar (lambda (group)
                                      (and (match-string group)
                                           (string-to-number
                                            (match-string group))))
                                    '(2 3)))))
        (goto-char (max (match-end 0) (point)))))
    (unless place
      (user-error "There is no place in a file here"))
    (apply #'edn-bridge-transcript-visit place)))

;;;; What the bridge keeps

(defun edn-bridge-tools-view-output (handle &optional function session)
  "Show the whole output that the bridge keeps under HANDLE in a buffer.
FUNCTION is called in it once it has all, if non-nil.  SESSION is the id of
the session that has the output, nil for this chat's."
  (edn-bridge-tools--fetch (edn-bridge-chat-current) handle 0
                           (edn-bridge-tools--view "") session function))

(defun edn-bridge-tools--output (handle offset session)
  "Return the params for the output HANDLE of SESSION from OFFSET on."
  (append (list :handle handle :offset offset :limit 262144)
          (and session (list :session-id session))))

(defun edn-bridge-tools--fetch (conn handle offset buffer session function)
  "Add what HANDLE of CONN holds from OFFSET on to BUFFER, part by part.
SESSION and FUNCTION are as in `edn-bridge-tools-view-output'."
  (edn-bridge-rpc-request
   conn "read_output" (edn-bridge-tools--output handle offset session)
   :on-success
   (lambda (data)
     (when (buffer-live-p buffer)
       (let* ((text (plist-get data :text))
              (next (+ (plist-get data :offset) (string-bytes text))))
         (with-current-buffer buffer
           (save-excursion
             (let ((inhibit-read-only t))
               (goto-char (point-max))
               (let ((from (point)))
                 (insert (edn-bridge-visible-break
                          text (- from (line-beginning-position))))
                 (edn-bridge-visible-region from (point) 'strict)))))
         (cond
          ((and (not (equal text "")) (< next (plist-get data :size)))
           (edn-bridge-tools--fetch conn handle next buffer session function))
          (function
           (with-current-buffer buffer (funcall function)))))))))

(defun edn-bridge-tools-read-output (handle limit function &optional session)
  "Call FUNCTION with the whole text that the bridge keeps under HANDLE.
That is not done where it has more than LIMIT bytes.  SESSION is as in
`edn-bridge-tools-view-output'."
  (let ((conn (edn-bridge-chat-current))
        (parts nil))
    (cl-labels
        ((fetch (offset)
           (edn-bridge-rpc-request
            conn "read_output"
            (edn-bridge-tools--output handle offset session)
            :on-success
            (lambda (data)
              (let* ((text (plist-get data :text))
                     (next (+ (plist-get data :offset) (string-bytes text))))
                (push text parts)
                (cond
                 ((> (plist-get data :size) limit)
                  (message "That is too large for this"))
                 ((and (not (equal text "")) (< next (plist-get data :size)))
                  (fetch next))
                 (t
                  (edn-bridge-chat-with-buffer conn
                    (funcall function
                             (apply #'concat (nreverse parts)))))))))))
      (fetch 0))))

;;;; Diffs

(defun edn-bridge-tools-diff (details)
  "Return the diff in DETAILS of a tool call, or nil."
  (let ((diff (and (consp details) (plist-get details :diff))))
    (and (stringp diff) (not (equal diff "")) diff)))

(defun edn-bridge-tools-insert-diff-button (data &optional face session)
  "Insert a button with FACE for the whole diff of DATA, where that was cut.
SESSION returns for the button the id of the session that has the diff; nil
stands for this chat's."
  (when-let ((handle (and (consp data) (plist-get data :diff-handle))))
    (insert-text-button "[The whole diff, which was cut here]"
                        'face (or face 'edn-bridge-button)
                        'follow-link t
                        'action (lambda (button)
                                  (edn-bridge-tools-view-output
                                   handle #'edn-bridge-tools--view-diff
                                   (and session (funcall session button)))))
    (insert "\n")))

(defun edn-bridge-tools--view-diff ()
  "Have this buffer, which has a whole diff, show it as one."
  (edn-bridge-diff-view-mode)
  (edn-bridge-visible-setup)
  (with-silent-modifications
    (edn-bridge-diff-add-faces (point-min) (point-max))))

(defun edn-bridge-tools--prefix (sign text)
  "Return TEXT with SIGN before each of its lines."
  (mapconcat (lambda (line) (concat sign line "\n"))
             (split-string (string-remove-suffix "\n" text) "\n")
             ""))

(defconst edn-bridge-tools--diff-limit 60000
  "How many characters of a diff are shown at once.")

(defun edn-bridge-tools-insert-diff (diff)
  "Insert DIFF, in unified form, with its faces.
The rest of a long one is shown by a button."
  (let ((start (point))
        (rest (- (length diff) edn-bridge-tools--diff-limit)))
    (insert (edn-bridge-visible-break
             (if (> rest 0)
                 (substring diff 0 edn-bridge-tools--diff-limit)
               diff)
             0))
    (unless (bolp) (insert "\n"))
    (edn-bridge-diff-add-faces start (point))
    (when (> rest 0)
      (insert-text-button (format "[The whole diff: %d more characters]" rest)
                          'face 'edn-bridge-button 'follow-link t
                          'action (lambda (_button)
                                    (with-current-buffer
                                        (edn-bridge-tools--view diff)
                                      (edn-bridge-tools--view-diff))))
      (insert "\n"))))

(provide 'edn-bridge-tools-output)

;;; edn-bridge-tools-output.el ends here
